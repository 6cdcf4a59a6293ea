"""Expiry: fail executions that waited longer than `max_age_ms` allows."""
