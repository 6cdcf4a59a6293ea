"""Events: values read from the rows that record changes, in one order for all readers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.features.events.event_cursor import EventPosition


class EventKind(StrEnum):
    """Kind of a change; the part before the dot is its group."""

    JOB_CREATED = "job.created"
    JOB_UPDATED = "job.updated"
    JOB_ENDED = "job.ended"  # of a repeating job: cancelled, or without further ticks
    ATTEMPT_FAILED = "attempt.failed"  # and another attempt follows
    EXECUTION_SUCCEEDED = "execution.succeeded"
    EXECUTION_FAILED = "execution.failed"
    EXECUTION_CANCELLED = "execution.cancelled"
    EXECUTION_RETRIED = "execution.retried"  # manually
    EXECUTION_CHANGED = "execution.changed"  # held, freed, cancellation requested, or released; see `reason`
    WORKER_STARTED = "worker.started"
    WORKER_STOPPED = "worker.stopped"
    WORKER_LOST = "worker.lost"
    BREAKER_CLOSED = "breaker.closed"
    BREAKER_OPEN = "breaker.open"
    BREAKER_HALF_OPEN = "breaker.half_open"
    CATALOGUE_CHANGED = "catalogue.changed"

    @property
    def group(self) -> str:
        """Return the part before the dot."""
        return self.value.partition(".")[0]


GROUPS = frozenset(kind.group for kind in EventKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change; `subject` is the worker, the target of the breaker, or the definition."""

    place: EventPosition
    kind: EventKind
    at: datetime
    endpoint: str | None
    job_id: str | None
    execution_id: str | None
    subject: str | None
    details: dict[str, Any]
    labels: Mapping[str, str] | None = None  # of its job; read only if a filter needs them

    @property
    def event_id(self) -> str:
        """Return the id: the text of the position behind the event."""
        return str(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Filter by kinds or groups, endpoint, job and labels of the job; None and empty apply no filter."""

    kinds: frozenset[str] = frozenset()
    endpoint: str | None = None
    job_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def wants(self, event: Event) -> bool:
        """Return whether an event passes the filter."""
        if self.kinds and event.kind.value not in self.kinds and event.kind.group not in self.kinds:
            return False
        if self.endpoint is not None and event.endpoint != self.endpoint:
            return False
        if not self.labels.items() <= (event.labels or {}).items():
            return False
        return self.job_id is None or event.job_id == self.job_id

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups with events that may pass."""
        return frozenset(kind.partition(".")[0] for kind in self.kinds) or GROUPS
