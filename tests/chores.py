"""Chores of a scheduler, found by the names of their functions."""

from functools import wraps
from types import SimpleNamespace
from typing import Any

from app.kernel.db import Database
from app.kernel.function_types import Run
from app.scheduler.chore import Chore, ChoreContext, Counts
from app.scheduler.chore_plan import plan


def chores_of(context: ChoreContext) -> Any:
    """Return all chores as functions that run once, named after their function and after the chore."""
    chores = plan(context)
    runs = {chore.name: with_checked_condition(context.database, chore) for chore in chores}
    of_functions = {run.__name__: run for run in reversed(runs.values())}
    return SimpleNamespace(**of_functions | {name.replace(" ", "_"): run for name, run in runs.items()})


def with_checked_condition(database: Database, chore: Chore) -> Run[Counts]:
    """Return the run of a chore; it fails if the chore has changed something although its condition did not hold."""
    if (condition := chore.condition) is None:
        return chore.run

    @wraps(chore.run)
    def run() -> Counts:
        has_work = bool(database.fetch(condition))
        counts = chore.run()
        assert has_work or not any(counts.values()), f"the condition of {chore.name} misses its work: {counts}"
        return counts

    return run
