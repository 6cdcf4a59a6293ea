"""Sending: one dispatcher per transport, all on the event loop of the worker process."""
