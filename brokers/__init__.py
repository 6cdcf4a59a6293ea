"""Worker process: rows of `executions` as Dramatiq messages, from the claim to the completion, and its lease."""
