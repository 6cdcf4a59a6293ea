"""/jobs: each module adds its operations to the resource of `jobs_api`."""

from app.web.jobs import batch_api, changes_api, reports_api  # noqa: F401 - registers their operations
from app.web.jobs.jobs_api import resource

__all__ = ["resource"]
