"""/executions."""
