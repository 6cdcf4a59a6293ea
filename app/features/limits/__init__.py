"""Limits: how many executions of an endpoint or key run at once, and how many start in a time."""

from app.feature import Feature


class Limits(Feature):
    """Limits: how many executions of an endpoint or key run at once, and how many start in a time."""

    name = "limits"
