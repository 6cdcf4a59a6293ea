"""Faults of a run: which and when, and how each is done to processes, database, receivers and keys."""
