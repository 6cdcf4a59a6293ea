"""/jobs: each module adds its operations to the resource of `views`."""

from app.api.jobs import batch, changes, reports  # noqa: F401 - for the operations that they add
from app.api.jobs.views import resource

__all__ = ["resource"]
