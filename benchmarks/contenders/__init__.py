"""Measured task queues, each behind the same four methods."""
