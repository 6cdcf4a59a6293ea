"""Flow in a run: limits, priorities, breakers and endpoints that must all make progress."""
