"""/executions."""

from app.features.results import api as results_api  # noqa: F401 - its routes
from app.web.executions.executions_api import resource

__all__ = ["resource"]
