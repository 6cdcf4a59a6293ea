"""Check of completion events: late handlers."""

from collections.abc import Iterator

from app.features.dead_letters import metrics
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import START_SCHEDULER, Finding, counted


def late_ends(context: ChoreContext) -> Iterator[Finding]:
    """Find completion events that still wait for their handlers."""
    number = metrics.late_ends(context.database, late_seconds=metrics.LATE_SECONDS)
    if number:
        problem = f"the handlers of {counted(number, 'completion event')} have not run: a dead letter may be missing"
        yield Finding("ends", problem, f"look for `outbox` in the log of workers and schedulers; {START_SCHEDULER}")
