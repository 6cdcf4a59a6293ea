"""Routing: which queue the executions of an endpoint go to."""
