"""Endpoints: immutable versions, which jobs keep, and live settings, which hold for all versions."""
