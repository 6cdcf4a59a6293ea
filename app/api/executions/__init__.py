"""/executions."""

from app.api.executions import results  # noqa: F401 - its routes
from app.api.executions.views import resource

__all__ = ["resource"]
