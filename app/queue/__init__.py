"""Queue: jobs and executions, from creation through claim to completion."""
