"""Callbacks: the end of an execution becomes a job of another endpoint."""
