"""Bulk chores: run the bulk jobs of a kind, and delete finished bulk jobs after the retention."""

from typing import Any

from app.kernel import ids
from app.queue.bulk.bulk_job_kind import BulkJobKind
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far


def bulk_chores(name: str, kind: BulkJobKind[Any, Any, Any], context: ChoreContext) -> list[Chore]:
    """Return the chores of one kind of bulk job: run it every second, and prune finished bulk jobs every hour.

    `name` is the plural of the kind, with underscores, such as `bulk_operations`.
    """
    statements = kind.bulk_jobs.statements
    runner = BulkJobRunner(
        database=context.database,
        kind=kind,
        scheduler_id=ids.process_id(),
        hint=context.hint,
        stopping=context.stopping,
    )

    def run() -> Counts:
        counts = counts_so_far()
        counts.update(processed=0, refused=0)
        runner.run(counts)
        return counts

    def prune() -> Counts:
        return Counts({name: context.delete(statements.prune, {"retention_ms": context.retention_ms})})

    return [
        Chore(name.replace("_", " "), 1, run, condition=statements.any_running),
        Chore(f"prune_{name}", 3600, prune),
    ]
