"""Chores of dead letters: redrives of a filter."""

from app.features.dead_letters.redrive_job import RedriveJob
from app.queue.jobs.job_creation import Creator
from app.scheduler.bulk_chore import bulk_chores
from app.scheduler.chore import Chore, ChoreContext


def chores(context: ChoreContext) -> list[Chore]:
    creator = Creator(context.database, shards=context.shards, look_ahead_ms=context.ahead_ms)
    return bulk_chores("redrives", RedriveJob(creator), context)
