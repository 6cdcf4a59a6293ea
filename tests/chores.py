"""The chores of a scheduler, by the names of their functions."""

from types import SimpleNamespace
from typing import Any

from app.scheduler.chore import ChoreContext
from app.scheduler.chore_plan import plan


def chores_of(context: ChoreContext) -> Any:
    """Return all chores of a plan, each as a function that runs it once, by the name of its function or its own."""
    chores = plan(context)
    of_functions = {chore.run.__name__: chore.run for chore in reversed(chores)}
    return SimpleNamespace(**of_functions | {chore.name.replace(" ", "_"): chore.run for chore in chores})
