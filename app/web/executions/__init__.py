"""/executions."""

from app.web.executions import results_api  # noqa: F401 - its routes
from app.web.executions.executions_api import resource

__all__ = ["resource"]
