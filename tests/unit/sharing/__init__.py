"""Sharing of a worker process: partitions, quotas, and both together in simulated time."""
