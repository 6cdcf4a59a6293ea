"""What is read of executions: their lists, their history, and one sentence on their state."""
