"""Bulk operations on the executions, dead letters and repeating jobs of a filter."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext, Command, Resource


class BulkJobs(Feature):
    name = "bulk_jobs"

    def resources(self) -> "Sequence[Resource]":
        from app.features.bulk_jobs import api

        return [api.resource, api.dry_runs]

    def commands(self) -> "Sequence[Command]":
        from app.features.bulk_jobs import cli

        return [cli.group]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.bulk_jobs.operation_job import OperationJob
        from app.scheduler.bulk_chore import bulk_chores

        return bulk_chores("bulk_operations", OperationJob(context.creator()), context)
