"""Sharing a worker process: partitions, shares, and both together in simulated time."""
