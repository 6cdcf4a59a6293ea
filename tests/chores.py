"""Chores of a scheduler, found by the names of their functions."""

from types import SimpleNamespace
from typing import Any

from app.scheduler.chore import ChoreContext
from app.scheduler.chore_plan import plan


def chores_of(context: ChoreContext) -> Any:
    """Return all chores as functions that run once, named after their function and after the chore."""
    chores = plan(context)
    of_functions = {chore.run.__name__: chore.run for chore in reversed(chores)}
    return SimpleNamespace(**of_functions | {chore.name.replace(" ", "_"): chore.run for chore in chores})
