"""Claims: how due executions are found, taken by a worker, and handed back by it."""
