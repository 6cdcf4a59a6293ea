"""Evidence of flow: what the run's endpoints were promised, and what their breakers and the faults did."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from schema.states import BreakerState


@dataclass(frozen=True, slots=True)
class StartRate:
    """At most so many starts in a time, and `burst` beyond them; none in a sliding window."""

    count: int
    per: timedelta
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """What an endpoint was registered with."""

    max_in_flight: int | None = None
    per_key: int | None = None
    """The most in flight of one limit key."""
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
    """A time by the receivers' and the database's clock."""

    since: datetime
    until: datetime

    def meets(self, since: datetime, until: datetime) -> bool:
        """Return whether it has an instant in common with another time."""
        return self.since <= until and since <= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEvidence:
    """What is judged beside the rows and the arrivals."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By endpoint."""
    breaker_changes: tuple[BreakerChange, ...] = ()
    """In the order in which they happened."""
    breakers: Mapping[str, str] = field(default_factory=dict)
    """The endpoint of each target that has only one."""
    disturbed: tuple[Span, ...] = ()
    """Times of faults, and of what follows them: order and progress are not judged then."""

    def states_of(self, target: str) -> Iterator[tuple[BreakerChange, Span]]:
        """Yield the changes of a target's breaker, each with the time until the next one."""
        changes = [change for change in self.breaker_changes if change.target == target]
        ends = [change.at for change in changes[1:]] + [datetime.max.replace(tzinfo=UTC)]
        for change, end in zip(changes, ends, strict=False):
            yield change, Span(change.at, end)

    def is_disturbed(self, since: datetime, until: datetime) -> bool:
        """Return whether a fault was felt within a time."""
        return any(span.meets(since, until) for span in self.disturbed)
