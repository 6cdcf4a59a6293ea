"""/jobs: each module adds its operations to the resource of `views`."""

from app.web.jobs import batch_api, changes_api, reports_api  # noqa: F401 - for the operations that they add
from app.web.jobs.jobs_api import resource

__all__ = ["resource"]
