"""Endpoints: their versions, which jobs keep, and their flow, which is the same for all versions."""
