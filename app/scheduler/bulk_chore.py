"""Bulk chores: go on with the bulk jobs of a kind, and delete the finished ones after the retention."""

from functools import partial
from typing import Any

from app.kernel import ids
from app.queue.bulk.walker import Kind, Lap, Walker
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts, counts_so_far


def bulk_chores(name: str, kind: Kind[Any, Any, Any], context: ChoreContext) -> list[Chore]:
    """Return the chores of one kind of bulk job, of which `name` is the plural."""
    walker = Walker(context.database, [kind], ids.process_id(), hint=context.hint, stopping=context.stopping)

    def walk() -> Counts:
        """Go on with what is under way, each at its rate."""
        counts = counts_so_far()

        def tell(lap: Lap) -> None:
            counts.update(walked=lap.done, refused=lap.refused)

        tell(Lap())
        walker.walk(tell)
        return counts

    def prune() -> Counts:
        """Delete finished rows after the retention."""
        delete = partial(kind.walks.prune, context.database, retention_ms=context.retention_ms, limit=BATCH)
        return Counts({name: context.until_short(delete, BATCH)})

    return [Chore(name.replace("_", " "), 1, walk), Chore(f"prune_{name}", 3600, prune)]
