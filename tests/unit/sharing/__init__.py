"""Sharing a worker process: lanes, shares, and both together in simulated time."""
