"""Reclaimer: takes executions back from dead workers, and from workers that have held them for too long."""

import logging
from collections.abc import Sequence

from opentelemetry.trace import Status, StatusCode
from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement
from app.kernel.tracing.exporting import Exporting
from app.queue.executions.reclaim import reclaim
from app.queue.executions.reclaim_candidates import START, candidates
from app.scheduler.chore import BATCH, ChoreContext, Counts, counts_so_far
from app.scheduler.locked_rows import LockedRow, LockedRows
from app.scheduler.outbox_chore import Outbox
from schema.states import AttemptStatus

log = logging.getLogger(__name__)

ENDED = statement(
    "executions.taken_back",
    """
    SELECT a.execution_id, a.attempt_number AS attempt, a.worker_id, a.started_at, a.completed_at, a.status,
           a.error->>'type' AS error_type, a.error->>'message' AS message,
           e.job_id, e.endpoint, e.endpoint_type, e.queue,
           COALESCE(e.trace_context, j.trace_context) AS trace_context
      FROM attempts AS a
      JOIN executions AS e ON e.execution_id = a.execution_id
      JOIN jobs AS j ON j.job_id = e.job_id
     WHERE a.attempt_id = ANY (CAST(:attempt_ids AS TEXT[]))
    """,
)


class Reclaimer:
    """Two chores that reclaim; each run reads all candidates, page by page, and skips locked rows."""

    def __init__(self, context: ChoreContext, outbox: Outbox) -> None:
        self._context = context
        self._database = context.database
        self._outbox = outbox
        self._lost_locked, self._stuck_locked = LockedRows("reclaim waits"), LockedRows("reclaim waits")

    def reclaim_from_dead_workers(self, page: int = BATCH) -> Counts:
        """Take back the executions of workers without a valid lease."""
        return self._reclaim(None, self._lost_locked, page)

    def reclaim_stuck(self, page: int = BATCH) -> Counts:
        """Take back executions whose claim is older than the stuck timeout."""
        return self._reclaim(int(self._context.settings.stuck_timeout_seconds * 1000), self._stuck_locked, page)

    def _reclaim(self, stuck_ms: int | None, locked: LockedRows, page: int) -> Counts:
        counts, after, skipped = counts_so_far(), START, set[LockedRow]()

        def batch() -> int:
            nonlocal after
            found = candidates(self._database, after, stuck_ms=stuck_ms, limit=page)
            done = reclaim(self._database, found, stuck_ms=stuck_ms)
            self._context.hint_all(done.queues)
            for each in self._context.exporting:
                self._record_spans(each, done.ends)
            counts.update(retrying=done.retrying, failed=done.failed, cancelled=done.cancelled, ignored=done.ignored)
            counts.update(self._outbox.handle_named(done.ends))
            skipped.update(map(LockedRow, done.locked))
            after = found[-1].place if found else after
            return len(found)

        self._context.until_short(batch, page)
        locked.note(skipped)
        return counts

    def _record_spans(self, exporting: Exporting, attempt_ids: Sequence[str]) -> None:
        """Record the spans of attempts whose workers died and lost them; an error costs only these spans.

        The spans have the ids of the lost spans, so the receiver's spans below them find their parent.
        """
        try:
            for row in self._database.fetch(ENDED, {"attempt_ids": list(attempt_ids)}) if attempt_ids else []:
                span = exporting.begin_attempt(row, [], round(row.started_at.timestamp() * 1e9))
                span.set_attribute("error.type", row.error_type)
                if row.status == AttemptStatus.FAILED:
                    span.set_status(Status(StatusCode.ERROR, row.message))
                span.end(round(row.completed_at.timestamp() * 1e9))
        except (UnavailableError, SQLAlchemyError) as error:
            log.warning("could not record the spans of lost attempts: %s; leaving them out", explained(error))
