"""Chores of bulk jobs."""

from app.features.bulk_jobs.bulk_walk import BulkWalk
from app.queue.jobs.job_creation import Creator
from app.scheduler.bulk_chore import bulk_chores
from app.scheduler.chore import Chore, ChoreContext


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of bulk jobs."""
    creator = Creator(context.database, shards=context.shards, look_ahead_ms=context.ahead_ms)
    return bulk_chores("bulk_operations", BulkWalk(creator), context)
