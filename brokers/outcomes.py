"""Outcomes: writes the ends of attempts to the database, and reports them within this process."""

import logging
import time
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.formats import numbered
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.release import Release, release
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.attempt_notes import AttemptNote, note
from app.queue.executions.completion import Completion, complete, still_held, subscribed, written
from app.queue.executions.stale_results import note_stale
from brokers.attempt_line import ids_of
from brokers.inbox import Inboxes
from brokers.outbox_thread import OutboxThread
from brokers.unwritten import TRIES_WHOLE, Batch
from schema.states import ExecutionStatus

if TYPE_CHECKING:
    from brokers.actor_outcomes import ActorOutcomes
    from brokers.spans import WorkerSpans

log = logging.getLogger(__name__)


ATTEMPT = "attempt"  # label of executions that failed by their last attempt


class AttemptCounters:
    """Metrics that each attempt changes, without a lock and with few calls, because each value has one writer.

    `te-delivery` counts started attempts and their lateness; `te-finalizer` calls `wrote` for each batch.
    """

    def __init__(self, values: Values) -> None:
        self.started = values.cells(series.STARTED)
        self.lateness = values.cells(series.LATENESS)
        self._completed = values.cells(series.COMPLETED)
        self._durations = values.cells(series.DURATION)
        self._executed = values.cells(series.EXECUTED)
        self._failed = values.cells(series.FAILED)
        self._uncertain = values.cells(series.UNCERTAIN)
        self._seconds = values.cells(series.COMPLETE_SECONDS)
        self._rows = values.cells(series.COMPLETE_ROWS)

    def wrote(self, completions: Sequence[Completion], effective: Collection[str], asked_at: float) -> None:
        """Count the effective results of a statement that was sent at `asked_at`."""
        took, rows = time.monotonic() - asked_at, len(completions)
        self._seconds[()][bisect_left(series.COMPLETE_SECONDS.buckets, took) + 1] += 1
        self._seconds[()][0] += took
        self._rows[()][bisect_left(series.COMPLETE_ROWS.buckets, rows) + 1] += 1
        self._rows[()][0] += rows
        executed, bounds = 0, series.DURATION.buckets
        for completion in completions:
            claim, verdict = completion.claim, completion.verdict
            if len(effective) < rows and claim.execution_id not in effective:
                continue
            kind, status, seconds = claim.endpoint_type, verdict.status, completion.duration_ms / 1000
            self._completed[kind, claim.endpoint, status][0] += 1
            cell = self._durations[kind, status]
            cell[bisect_left(bounds, seconds) + 1] += 1
            cell[0] += seconds
            if verdict.error is None:
                executed += 1
                continue
            executed += status is ExecutionStatus.SUCCESS  # the policy ignores the error
            self._failed[ATTEMPT,][0] += status is ExecutionStatus.FAILED
            self._uncertain[kind,][0] += bool(verdict.error.get("may_have_been_delivered"))
        self._executed[()][0] += executed


class Outcomes:
    """Writes batches of the results of a worker process; raises the errors of the database."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        values: Values,
        rules: FlowRules,
        *,
        inboxes: Inboxes,
        outbox: OutboxThread,
    ) -> None:
        self._inboxes = inboxes
        self._outbox = outbox
        self.counters = AttemptCounters(values)
        self.spans: WorkerSpans | None = None
        self.of_actors: ActorOutcomes | None = None  # if this process listens to processes with actors
        self._rules = rules
        self._database = database
        self._worker_id = worker_id
        self._values = values

    def note(self, batch: Batch[AttemptNote]) -> None:
        """Record events of running attempts."""
        noted = note(self._database, self._worker_id, batch.items, unless_locked=batch.failures > 0)
        self._values.add(series.SOFT_LIMITS, amount=noted[ChangeReason.SOFT_LIMIT])

    def release(self, batch: Batch[Release]) -> None:
        """Release unsent claims."""
        if batch.failures >= TRIES_WHOLE:
            held = still_held(self._database, self._worker_id, [item.key for item in batch.items])
            batch.items = [item for item in batch.items if item.key.execution_id in held]
        back = release(self._database, self._worker_id, batch.items, unless_locked=batch.failures > 0)
        self._values.add(series.RELEASED, amount=len(back))
        for one in back:
            if one.is_due:
                self._inboxes.wake(one.queue, (one.partition,), one.run_at)
        ends = [one.end_id for one in back if one.end_id is not None]
        if ends:
            self._outbox.submit(ends)

    def complete(self, batch: Batch[Completion]) -> None:
        """Write the completions of attempts; count, trace and pass on the written completions."""
        if batch.failures >= TRIES_WHOLE:
            self._drop_lost(batch)
        asked_at = time.monotonic()
        items = batch.items
        effective, others = set[str](), items
        if self.of_actors is not None:
            effective = self.of_actors.complete(batch)
            others = [one for one in items if not one.then]
        effective |= complete(self._database, self._worker_id, others, unless_locked=batch.failures > 0)
        self.counters.wrote(items, effective, asked_at)
        if self.spans is not None:
            self.spans.completed(items, effective, asked_at)
        if self._rules.capped:
            self._report_ended(items)
        ends = [one.attempt_id for one in subscribed(items) if one.claim.execution_id in effective]
        if ends:
            self._outbox.submit(ends)
        if self.of_actors is not None:
            self.of_actors.tell(items, effective)
        if len(effective) < len(items):
            self._report_lost(items, effective)

    def _report_ended(self, completions: Sequence[Completion]) -> None:
        """Report ended executions of limited endpoints to the consumers."""
        claims = [completion.claim for completion in completions if completion.claim.endpoint in self._rules.capped]
        for queue in {claim.queue for claim in claims}:
            ended = [(claim.endpoint, claim.limit_key) for claim in claims if claim.queue == queue]
            self._inboxes.report_ended(queue, ended)

    def _drop_lost(self, batch: Batch[Completion]) -> None:
        """Drop results whose claim is lost, which needs no lock; an earlier try may have written them."""
        held = still_held(self._database, self._worker_id, [completion.claim.key for completion in batch.items])
        ended = [completion for completion in batch.items if completion.claim.execution_id not in held]
        if ended:
            asked_at = time.monotonic()
            effective = written(self._database, ended)
            batch.items = [completion for completion in batch.items if completion.claim.execution_id in held]
            self.counters.wrote(ended, effective, asked_at)
            if self.of_actors is not None:
                self.of_actors.tell(ended, effective)
            self._report_lost(ended, effective)

    def _report_lost(self, completions: list[Completion], effective: set[str]) -> None:
        lost = [completion for completion in completions if completion.claim.execution_id not in effective]
        for completion in lost:
            self._values.add(series.STALE)
            log.warning(
                "the claim on %s (attempt %d) was lost; its result changes nothing",
                completion.claim.execution_id,
                completion.claim.attempt,
                extra=ids_of(completion.claim),
            )
        try:
            note_stale(self._database, self._worker_id, lost)
        except (UnavailableError, SQLAlchemyError) as error:
            # The history lacks a line; the results are dealt with.
            log.warning(
                "cannot note %s of lost claims: %s; their histories lack a line",
                numbered(len(lost), "result"),
                explained(error),
            )
