"""Events: values read from the rows that record changes, in one order for all readers; their form on the wire."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from app.kernel.formats import EPOCH, MICROSECOND, compact_json, rfc3339

RETRY_MS = 1000  # for clients that lose a stream
SOURCES = "abcejrstw"
_TEXT = re.compile(r"([0-9]{1,16})(?:-([abcejrstw])-([A-Za-z0-9_]{1,128}))?", re.ASCII)


class EventPosition(NamedTuple):
    """Position behind the event of a source and key at an instant; before all events of it if both are empty.

    The text of the position behind an event is the event's id.
    """

    at: datetime
    source: str = ""
    key: str = ""

    def __str__(self) -> str:
        at = str((self.at - EPOCH) // MICROSECOND)
        return f"{at}-{self.source}-{self.key}" if self.source else at

    @classmethod
    def parse(cls, text: str) -> "EventPosition | None":
        """Parse the text of a position; returns None for any other text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        return cls(EPOCH + timedelta(microseconds=int(match[1])), match[2] or "", match[3] or "")

    def of_source(self, source: str) -> tuple[datetime, str]:
        """Return the instant and the key after which the events of a source follow."""
        if source < self.source:
            return self.at + MICROSECOND, ""
        return (self.at, self.key) if source == self.source else (self.at, "")


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
    WORKFLOW_STARTED = "workflow.started"
    WORKFLOW_PAUSED = "workflow.paused"
    WORKFLOW_RESUMED = "workflow.resumed"
    WORKFLOW_STOPPING = "workflow.stopping"
    WORKFLOW_SUCCEEDED = "workflow.succeeded"
    WORKFLOW_FAILED = "workflow.failed"
    WORKFLOW_CANCELLED = "workflow.cancelled"
    WORKFLOW_RETRIED = "workflow.retried"
    WORKFLOW_COMPENSATING = "workflow.compensating"
    WORKFLOW_COMPENSATED = "workflow.compensated"
    WORKFLOW_COMPENSATION_FAILED = "workflow.compensation_failed"

    @property
    def group(self) -> str:
        """Return the part before the dot."""
        return self.value.partition(".")[0]


GROUPS = frozenset(kind.group for kind in EventKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change; `subject` is the worker, the target of the breaker, or the name of the definition or workflow."""

    position: EventPosition
    kind: EventKind
    at: datetime
    endpoint: str | None
    job_id: str | None
    execution_id: str | None
    subject: str | None
    details: dict[str, Any]
    labels: Mapping[str, str] | None = None  # of its job or workflow; read only if a filter needs them
    workflow_id: str | None = None

    def shape(self) -> dict[str, Any]:
        """Return the event as answered, ready for JSON."""
        return {
            "event_id": str(self.position),
            "kind": self.kind.value,
            "at": rfc3339(self.at),
            "endpoint": self.endpoint,
            "job_id": self.job_id,
            "execution_id": self.execution_id,
            "workflow_id": self.workflow_id,
            "subject": self.subject,
            "details": self.details,
        }

    def message(self) -> bytes:
        """Write the event for a stream; its JSON contains no line feed, so it fits into one line."""
        return f"id: {self.position}\nevent: {self.kind}\ndata: {compact_json(self.shape())}\n\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Filter by kinds or groups, endpoint, job, workflow and labels; None and empty apply no filter."""

    kinds: frozenset[str] = frozenset()
    endpoint: str | None = None
    job_id: str | None = None
    workflow_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def wants(self, event: Event) -> bool:
        """Return whether an event passes the filter."""
        if self.kinds and event.kind.value not in self.kinds and event.kind.group not in self.kinds:
            return False
        if self.endpoint is not None and event.endpoint != self.endpoint:
            return False
        if self.workflow_id is not None and event.workflow_id != self.workflow_id:
            return False
        if not self.labels.items() <= (event.labels or {}).items():
            return False
        return self.job_id is None or event.job_id == self.job_id

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups with events that may pass."""
        return frozenset(kind.partition(".")[0] for kind in self.kinds) or GROUPS


def beginning(position: EventPosition) -> bytes:
    """Write the start of a stream, with an id: a client that loses the connection early continues from there."""
    return f"retry: {RETRY_MS}\nid: {position}\n\n".encode()


def heartbeat(position: EventPosition) -> bytes:
    """Write a heartbeat of a stream with its position; clients see no event in it."""
    return f"id: {position}\n\n".encode()
