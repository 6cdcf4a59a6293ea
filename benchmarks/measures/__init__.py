"""Measurements, each in a separate run or all in one run."""
