"""Ends of executions: the outbox row that each followed end leaves, and dead letters."""
