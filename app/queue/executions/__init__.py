"""Executions: the rows that workers claim, deliver and complete."""
