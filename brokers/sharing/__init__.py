"""Sharing a worker process: which lanes are claimed next, and how many slots an endpoint may hold."""
