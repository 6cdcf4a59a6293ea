"""Outcomes: what the ends of attempts are in the database, and who in this process is told of them."""

import logging
import time
from collections.abc import Callable, Sequence

from app.kernel.db import Database
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.release import HandedBack, Release, hand_back
from app.queue.executions.completion import Conclusion, conclude, still_held, written
from app.queue.executions.soft_limit import SoftLimitPassed, note
from brokers.attempt_counters import Tally
from brokers.attempt_line import ids_of
from brokers.spans import WorkerSpans
from brokers.unwritten import TRIES_WHOLE, Batch

log = logging.getLogger(__name__)


class Outcomes:
    """Writes batches of a worker process's results; what the database cannot write is raised."""

    def __init__(self, database: Database, worker_id: str, values: Values, rules: FlowRules) -> None:
        self.tell_handed_back: Callable[[HandedBack], None] = lambda _back: None
        self.tell_ends: Callable[[Sequence[str]], None] = lambda _ends: None  # that were put in the outbox, perhaps
        self.tell_freed: dict[str, Callable[[Sequence[tuple[str, str]]], None]] = {}  # by queue
        self.tally = Tally(values)
        self.spans: WorkerSpans | None = None
        self._rules = rules
        self._database = database
        self._worker_id = worker_id
        self._values = values

    def note(self, batch: Batch[SoftLimitPassed]) -> None:
        """Note what goes on beyond its soft limit."""
        noted = note(self._database, self._worker_id, batch.items, unless_locked=batch.failures > 0)
        self._values.add(series.SOFT_LIMITS, amount=noted)

    def release(self, batch: Batch[Release]) -> None:
        """Hand back what was not started."""
        if batch.failures >= TRIES_WHOLE:
            held = still_held(self._database, self._worker_id, [item.claim for item in batch.items])
            batch.items = [item for item in batch.items if item.claim.execution_id in held]
        back = hand_back(self._database, self._worker_id, batch.items, unless_locked=batch.failures > 0)
        self._values.add(series.RELEASED, amount=len(back))
        for one in back:
            if one.is_due:
                self.tell_handed_back(one)
        self._tell_ends([one.end_id for one in back if one.end_id is not None])

    def conclude(self, batch: Batch[Conclusion]) -> None:
        """Write how attempts ended."""
        if batch.failures >= TRIES_WHOLE:
            self._drop_lost(batch)
        asked_at = time.monotonic()
        effective = conclude(self._database, self._worker_id, batch.items, unless_locked=batch.failures > 0)
        self.tally.wrote(batch.items, effective, asked_at)
        if self.spans is not None:
            self.spans.concluded(batch.items, effective, asked_at)
        if self._rules.capped:
            self._tell_freed(batch.items)
        self._tell_ends(
            [one.attempt_id for one in batch.items if one.may_be_followed and one.claim.execution_id in effective]
        )
        if len(effective) < len(batch.items):
            self._report_lost(batch.items, effective)

    def _tell_freed(self, conclusions: Sequence[Conclusion]) -> None:
        """Tell the consumers what may run now in the place of what has ended."""
        claims = [conclusion.claim for conclusion in conclusions if conclusion.claim.endpoint in self._rules.capped]
        for queue in {claim.queue for claim in claims} & self.tell_freed.keys():
            self.tell_freed[queue]([(claim.endpoint, claim.limit_key) for claim in claims if claim.queue == queue])

    def _tell_ends(self, end_ids: Sequence[str]) -> None:
        if end_ids:
            self.tell_ends(end_ids)

    def _drop_lost(self, batch: Batch[Conclusion]) -> None:
        """Drop results whose claim is known to be lost, which needs no lock; an earlier try may have written them."""
        held = still_held(self._database, self._worker_id, [conclusion.claim.key for conclusion in batch.items])
        ended = [conclusion for conclusion in batch.items if conclusion.claim.execution_id not in held]
        if ended:
            asked_at = time.monotonic()
            effective = written(self._database, ended)
            batch.items = [conclusion for conclusion in batch.items if conclusion.claim.execution_id in held]
            self.tally.wrote(ended, effective, asked_at)
            self._report_lost(ended, effective)

    def _report_lost(self, conclusions: list[Conclusion], effective: set[str]) -> None:
        for conclusion in conclusions:
            if conclusion.claim.execution_id not in effective:
                self._values.add(series.STALE)
                log.warning(
                    "the claim on %s (attempt %d) was lost; its result changes nothing",
                    conclusion.claim.execution_id,
                    conclusion.claim.attempt,
                    extra=ids_of(conclusion.claim),
                )
