"""Results: the outcome of an execution, and waiting for it."""

from app.feature import Feature


class Results(Feature):
    """Results: the outcome of an execution, and waiting for it."""

    name = "results"
