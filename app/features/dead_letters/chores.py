"""Chores of dead letters: redrives of a filter."""

from app.features.dead_letters.redrive_walk import RedriveWalk
from app.queue.jobs.job_creation import Creator
from app.scheduler.bulk_chore import bulk_chores
from app.scheduler.chore import Chore, ChoreContext


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of dead letters."""
    creator = Creator(context.database, shards=context.shards, look_ahead_ms=context.ahead_ms)
    return bulk_chores("redrives", RedriveWalk(creator), context)
