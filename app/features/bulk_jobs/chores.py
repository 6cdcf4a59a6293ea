"""Chores of bulk jobs."""

from app.features.bulk_jobs.operation_job import OperationJob
from app.queue.jobs.job_creation import Creator
from app.scheduler.bulk_chore import bulk_chores
from app.scheduler.chore import Chore, ChoreContext


def chores(context: ChoreContext) -> list[Chore]:
    creator = Creator(context.database, shards=context.shards, look_ahead_ms=context.ahead_ms)
    return bulk_chores("bulk_operations", OperationJob(creator), context)
