"""Faults of a run: their schedule, and their execution on processes, database, receivers and keys."""
