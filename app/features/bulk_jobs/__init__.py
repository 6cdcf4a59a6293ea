"""Bulk jobs: cancel, retry or reschedule the executions of a filter, archive dead letters, in the background."""
