"""Schedules of repeating jobs: cron, intervals, and the rules for missed ticks. Pure: no database, no clock."""
