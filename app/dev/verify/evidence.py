"""Evidence of a run: rows, arrivals and API answers, judged by `app.dev.verify.promise_checks`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from app.dev.verify.ending.ending_rows import Endings
from app.dev.verify.workflows.workflow_rows import WorkflowsOfRun
from app.kernel.db.rows import RowValue
from schema.states import AttemptStatus, BreakerState, EndpointType, ExecutionStatus, Trigger

LOST_TYPES = frozenset({"WORKER_LOST", "STUCK"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A job that the API accepted."""

    job_id: str
    key: str
    trigger: Trigger
    cancelled: bool = False
    """The API confirmed a cancellation before the job ran."""
    first_tick: datetime | None = None
    """First tick of a repeating job; one more is due after each `step`."""
    step: timedelta | None = None
    ended_at: datetime | None = None
    """Database time before the cancellation of a repeating job; each earlier tick must have an execution."""
    is_stormed: bool = False
    """The job repeats and is paused and resumed continuously: it must continue, but may skip ticks."""
    resumed_at: datetime | None = None
    """Database time after the last resume of a stormed job."""
    visible_at: datetime | None = None
    """Database time after the commit of the application's transaction that created the job."""


@dataclass(frozen=True, slots=True)
class ExecutionRow(RowValue):
    """A row of `executions`."""

    execution_id: str
    job_id: str
    endpoint_type: EndpointType
    status: ExecutionStatus
    attempt_count: int
    max_attempts: int
    scheduled_at: datetime
    endpoint: str = ""
    shard: int = 0
    limit_key: str = ""
    priority: int = 128


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A row of `attempts`."""

    execution_id: str
    number: int
    status: AttemptStatus
    worker_id: str | None
    error_type: str | None = None
    uncertain: bool = False
    retryable: bool = True
    started_at: datetime | None = None
    ended_at: datetime | None = None
    led_to: ExecutionStatus | None = None
    """Status of the execution after a failed attempt."""

    @property
    def explains_a_repeat(self) -> bool:
        """Return whether the attempt failed by its record, and the record leaves open that it was delivered."""
        return self.status is AttemptStatus.FAILED and (self.uncertain or self.error_type in LOST_TYPES)


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """Change of a row of `executions`, recorded by a trigger inside the transaction of the change."""

    execution_id: str
    before: ExecutionStatus | None
    after: ExecutionStatus
    attempt_before: int
    attempt_after: int
    worker_before: str | None
    worker_after: str | None
    lease_valid: bool | None = None
    """At a claim: whether the worker's lease was valid by the database's clock."""
    at: datetime | None = None
    """Start of the transaction."""


class SeenEvent(NamedTuple):
    """An event of the API's stream; a named tuple, because a long run has very many."""

    event_id: str
    kind: str
    subject: str
    """Id of the execution, or else of the job."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message at a receiver."""

    transport: EndpointType
    execution_id: str
    attempt: int | None
    """None in a Redis stream, whose entries do not carry it."""
    at: datetime
    taken: bool = True
    """False if the receiver refused the message."""
    grain: timedelta = timedelta(0)
    """Maximum rounding error of `at`: servers truncate timestamps to milliseconds."""
    ended: datetime | None = None
    """End of the request; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """Conduct of the API and the processes during the run."""

    refused: tuple[str, ...] = ()
    """Requests with an error answer that no fault excuses."""
    unanswered: int = 0
    """Requests without an answer after all repetitions: their jobs may exist or not."""
    slowest_answer: float = 0.0
    repeats: int = 0
    unexpected_ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowLock:
    """A row that the run locked; `others` counts rows that the product changed during the lock.

    It counts finished executions; during the lock of a repeating job ticks of other jobs, of a completion event jobs of
    callbacks. It is 0 if another execution of a killed worker was not reclaimed.
    """

    row_id: str
    since: datetime
    until: datetime
    others: int


@dataclass(frozen=True, slots=True)
class StartRate:
    """Maximum rate of starts: `count` in each `per`, plus `burst`; 0 means a sliding window."""

    count: int
    per: timedelta
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of an endpoint."""

    max_in_flight: int | None = None
    per_key: int | None = None
    """Maximum in flight per limit key."""
    pace: StartRate | None = None


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """A row of `breaker_events`."""

    target: str
    before: BreakerState
    after: BreakerState
    at: datetime


@dataclass(frozen=True, slots=True)
class Span:
    """Time span by the clock of the receivers and the database."""

    since: datetime
    until: datetime

    def overlaps(self, since: datetime, until: datetime) -> bool:
        return self.since <= until and since <= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a run observed."""

    accepted: tuple[AcceptedJob, ...]
    contradictions: tuple[str, ...] = ()
    """Idempotency keys for which the API returned two jobs."""
    jobs: frozenset[str]
    """Ids of the stored jobs."""
    executions: tuple[ExecutionRow, ...]
    attempts: tuple[AttemptRow, ...]
    transitions: tuple[TransitionRow, ...] | None
    """In order; None if the database cannot record them."""
    arrivals: tuple[Arrival, ...]
    clock_slack: timedelta = timedelta(0)
    """Maximum lag of the receivers' clock behind the database's."""
    conduct: Conduct = field(default_factory=Conduct)
    locks: tuple[RowLock, ...] = ()
    leaks: tuple[str, ...] = ()
    """Places that contain the run's secret in clear text."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By endpoint."""
    breaker_changes: tuple[BreakerChange, ...] = ()
    """In order."""
    breakers: Mapping[str, str] = field(default_factory=dict)
    """Endpoint by target, for targets with a single endpoint."""
    disturbed: tuple[Span, ...] = ()
    """Spans of faults and of the recovery from them, in which order and progress are not judged."""
    endings: Endings = field(default_factory=Endings)
    rolled_back: frozenset[str] = frozenset()
    """Ids of jobs that an application created in transactions that it rolled back."""
    events: tuple[SeenEvent, ...] | None = None
    """Events of the run's jobs and executions in the order of their arrival; None if no stream was read."""
    workflows: WorkflowsOfRun = field(default_factory=WorkflowsOfRun)
    queue_pauses: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    """Pauses of the queue of an endpoint, by endpoint."""

    def attempts_of(self) -> dict[str, list[AttemptRow]]:
        """Group the attempts by execution, in order."""
        return grouped(sorted(self.attempts, key=attrgetter("number")), "execution_id")

    def arrivals_of(self) -> dict[str, list[Arrival]]:
        """Group the arrivals by execution, in order."""
        return grouped(sorted(self.arrivals, key=attrgetter("at")), "execution_id")

    def states_of(self, target: str) -> Iterator[tuple[BreakerChange, Span]]:
        """Yield each change of a target's breaker with the time until the next change."""
        changes = [change for change in self.breaker_changes if change.target == target]
        ends = [change.at for change in changes[1:]] + [datetime.max.replace(tzinfo=UTC)]
        for change, end in zip(changes, ends, strict=False):
            yield change, Span(change.at, end)

    def is_disturbed(self, since: datetime, until: datetime) -> bool:
        """Return whether a fault or its recovery overlaps a time span."""
        return any(span.overlaps(since, until) for span in self.disturbed)


def grouped(rows: Iterable[T], *attributes: str) -> dict[Any, list[T]]:
    """Group rows by the values of attributes and keep their order."""
    key, groups = attrgetter(*attributes), dict[Any, list[T]]()
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
