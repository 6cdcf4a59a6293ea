"""/executions."""

from app.api.executions.views import resource

__all__ = ["resource"]
