"""Workflows of a run: their load, their rows and the checks of both."""
