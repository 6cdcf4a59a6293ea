"""Reads of executions: lists, history, results and explanations."""
