"""Evidence of a run: what both sides know at its end, judged by `app.dev.verify.promise_checks`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from app.dev.verify.flow.flow_evidence import FlowEvidence
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, Trigger

LOST_TYPES = frozenset({"WORKER_LOST", "STUCK"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job as the API accepted it."""

    job_id: str
    key: str
    trigger: Trigger
    cancelled: bool = False
    """The API said, before anything began, that it will not run."""
    first_tick: datetime | None = None
    step: timedelta | None = None
    """Of a job that repeats: its ticks are the first one and every step after it."""
    ended_at: datetime | None = None
    """Of a job that repeats: the database's clock before it was asked to end. Ticks before that are owed."""
    is_stormed: bool = False
    """It repeats, and is paused and resumed all the time: no particular tick is owed, only that it goes on."""
    resumed_at: datetime | None = None
    """Of a stormed job: the database's clock after its last resume."""


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """A row of `executions`."""

    execution_id: str
    job_id: str
    transport: EndpointType
    status: ExecutionStatus
    attempt_count: int
    max_attempts: int
    scheduled_at: datetime
    endpoint: str = ""
    shard: int = 0
    limit_key: str = ""
    priority: int = 128

    @property
    def is_final(self) -> bool:
        return self.status in {ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED}


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

    @property
    def explains_a_repeat(self) -> bool:
        """Return whether the record says that this attempt may have been delivered although it counts as failed."""
        return self.status is AttemptStatus.FAILED and (self.uncertain or self.error_type in LOST_TYPES)


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """One change of a row of `executions`, noted by a trigger inside the transaction that made it."""

    execution_id: str
    before: ExecutionStatus | None
    after: ExecutionStatus
    attempt_before: int
    attempt_after: int
    worker_before: str | None
    worker_after: str | None
    lease_valid: bool | None = None
    """At a claim: whether the claimer's lease was valid by the database's clock."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message at a receiver."""

    transport: EndpointType
    execution_id: str
    attempt: int | None
    """None where the message does not carry it: in a Redis stream."""
    at: datetime
    taken: bool = True
    """False when the receiver answered that it does not take it."""
    grain: timedelta = timedelta(0)
    """Longest time after `at` at which it may have come: servers cut their timestamps to milliseconds."""
    ended: datetime | None = None
    """When it was open no longer; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """Conduct of the API and the processes during the run."""

    refused: tuple[str, ...] = ()
    """Requests that were answered with an error that no fault excuses."""
    unanswered: int = 0
    """Requests that had no answer at the end of all patience: their jobs may exist or not."""
    slowest_answer: float = 0.0
    repeats: int = 0
    unexpected_ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowLock:
    """A row that the run locked, and the number of `others` that the product changed while it was locked.

    The row is an execution with an open delivery, and the others are executions that ended; or it is a repeating job,
    and the others are ticks of other jobs.
    """

    row_id: str
    since: datetime
    until: datetime
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a run observed."""

    accepted: tuple[Accepted, ...]
    contradictions: tuple[str, ...] = ()
    """Requests with one idempotency key that were answered with two jobs."""
    jobs: frozenset[str]
    """Ids of the stored jobs."""
    executions: tuple[ExecutionRow, ...]
    attempts: tuple[AttemptRow, ...]
    transitions: tuple[TransitionRow, ...] | None
    """In the order in which they happened; None where the database cannot note them."""
    arrivals: tuple[Arrival, ...]
    clock_slack: timedelta = timedelta(0)
    """By how much the receivers' clock may be behind the database's."""
    conduct: Conduct = field(default_factory=Conduct)
    locks: tuple[RowLock, ...] = ()
    leaks: tuple[str, ...] = ()
    """Places that hold the secret of the run in the clear."""
    flow: FlowEvidence = field(default_factory=FlowEvidence)

    def attempts_of(self) -> Mapping[str, list[AttemptRow]]:
        """Group the attempts by execution, in order."""
        grouped: dict[str, list[AttemptRow]] = {}
        for attempt in sorted(self.attempts, key=attrgetter("number")):
            grouped.setdefault(attempt.execution_id, []).append(attempt)
        return grouped

    def arrivals_of(self) -> Mapping[str, list[Arrival]]:
        """Group the arrivals by execution, in order."""
        grouped: dict[str, list[Arrival]] = {}
        for arrival in sorted(self.arrivals, key=attrgetter("at")):
            grouped.setdefault(arrival.execution_id, []).append(arrival)
        return grouped
