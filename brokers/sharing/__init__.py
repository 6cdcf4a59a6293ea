"""Sharing a worker process: which partitions are claimed next, and how many slots an endpoint may hold."""
