"""Bulk: background work over all rows of a filter."""
