"""Worker process: rows of `executions` as Dramatiq messages, from the claim to the conclusion, and its lease."""
