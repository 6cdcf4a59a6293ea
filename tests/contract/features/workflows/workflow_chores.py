"""Chores of workflows, run once by a test."""

from app.features.workflows import Workflows
from app.kernel.config import Settings
from app.kernel.db import Database
from app.scheduler.chore import ChoreContext, Counts
from tests.chores import with_checked_condition
from tests.contract.races.racing import never


def run_chore(database: Database, name: str = "workflows") -> Counts:
    context = ChoreContext(database, Settings(), hint=lambda _queue: None, stopping=never)
    chore = next(chore for chore in Workflows().chores(context) if chore.name == name)
    return with_checked_condition(database, chore)()
