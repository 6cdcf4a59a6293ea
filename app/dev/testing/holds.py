"""Holds: due executions that no worker may claim yet, by the explanation that the product gives to operators."""

from datetime import datetime, timedelta
from typing import NamedTuple

from app.features import FEATURES
from app.features.limits.rules import limiters_of
from app.features.limits.store import read_limiter
from app.kernel.db import Database
from app.kernel.errors import ExecutionNotFoundError
from app.queue.claiming.endpoint_rules import readable_limits
from app.queue.reading.explanation import explain
from app.queue.reading.waiting_reasons import FACTS, Facts

# No longer due: a worker has released it, or has tried it.
_MOVED = {"WAITING_FOR_RUN_AT", "RETRYING_AFTER_ERROR", "SECRET_UNREADABLE"}
_PAUSED = {"ENDPOINT_PAUSED", "QUEUE_PAUSED", "JOB_PAUSED"}


class ClaimHold(NamedTuple):
    """Reason why a due execution waits, and the instant at which the reason ends; None if no instant is known."""

    reason: str
    until: datetime | None = None


class Holds:
    """Reads why executions wait."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reasons = [reason for feature in FEATURES for reason in feature.reasons()]

    def of(self, execution_id: str, now: datetime) -> ClaimHold | None:
        """Return the hold of an execution; None if a worker may claim it, or has claimed it."""
        try:
            found = explain(self._database, execution_id, reclaim_every=timedelta(0), reasons=self._reasons)
        except ExecutionNotFoundError:
            return None
        if found.reason in _MOVED:
            return None
        if found.reason in _PAUSED:
            return ClaimHold(found.reason)
        until = self._next_start(execution_id) if found.reason == "RATE_LIMITED" else found.until
        return ClaimHold(found.reason, until) if until is not None and until > now else None

    def _next_start(self, execution_id: str) -> datetime | None:
        """Return when the rates let the next execution of the same endpoint and key start."""
        facts = Facts.from_row(self._database.fetch(FACTS, {"execution_id": execution_id})[0])
        limits = readable_limits(facts.limits, facts.endpoint)
        limiters = [] if limits is None else limiters_of(limits, facts.endpoint, facts.limit_key, most_ahead=1)
        instants = (read_limiter(self._database, limiter).next_at() for limiter in limiters)
        return max((instant for instant in instants if instant is not None), default=None)
