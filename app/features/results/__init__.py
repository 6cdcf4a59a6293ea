"""Results: the outcome of an execution, and waiting for it."""
