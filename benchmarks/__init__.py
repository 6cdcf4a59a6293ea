"""Measurements as ratios: each figure beside the same work done by plain Dramatiq + Redis in the same run."""
