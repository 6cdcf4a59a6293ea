"""Check of queues: due executions without a worker."""

from collections.abc import Iterator

from app.features.queues.store import unserved
from app.kernel.formats import numbered
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding


def queues(context: ChoreContext) -> Iterator[Finding]:
    for each in unserved(context.database):
        due = numbered(each.due, "execution", "are due")
        problem = f"no worker serves the queue {each.queue!r}: {due}, the first for {each.oldest_due_seconds:.0f} s"
        yield Finding("queues", problem, f"start `dramatiq actors`, or `dramatiq actors -Q {each.queue}`")
