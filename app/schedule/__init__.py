"""When a repeating job fires: cron, intervals, what becomes of missed ticks. Pure: no database, no clock."""
