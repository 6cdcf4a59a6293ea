"""/executions."""

from app.web.executions import results_api  # noqa: F401 - registers its operations
from app.web.executions.executions_api import resource

__all__ = ["resource"]
