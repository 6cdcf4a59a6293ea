"""Rows of `executions` as Dramatiq messages: claim, hand out, conclude, and stay alive meanwhile."""
