"""Trouble of endpoints: reasons to look at an endpoint, and the order of a list by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.features.control.statistics import HeldEndpoint
from app.features.rollups.endpoint_rollups import WindowCounts
from schema.states import BreakerState

MAX_FAILING = 0.01  # share of the executions that ended
BUDGET_MS = 5_000  # an attempt starts on time within this


class Trouble(StrEnum):
    """Reason to look at an endpoint, the most urgent first."""

    BREAKER = "breaker"  # its target is left alone
    FAILING = "failing"  # executions failed for good
    UNCERTAIN = "uncertain"  # attempts that may have been delivered
    LATE = "late"  # the slowest percent started after BUDGET_MS
    PAUSED = "paused"
    HELD = "held"  # its limits make executions wait
    LETTERS = "letters"  # open dead letters


_WEIGHTS = {trouble: 2 ** (len(Trouble) - number) for number, trouble in enumerate(Trouble)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointState:
    """An endpoint: its deliveries in a window, None without deliveries, and its present holds."""

    endpoint: str
    seconds: float
    deliveries: WindowCounts | None
    held: HeldEndpoint | None
    letters: int
    breaker: BreakerState | None
    breaker_until: datetime | None
    paused_at: datetime | None
    paused_by: str | None

    @property
    def troubles(self) -> list[Trouble]:
        """Return the reasons to look at the endpoint, the most urgent first."""
        counts = None if self.deliveries is None else self.deliveries.counts
        ended = 0 if counts is None else counts.succeeded + counts.failed
        late = None if counts is None else counts.lateness.percentile(0.99)
        found = {
            Trouble.BREAKER: self.breaker is not None,
            Trouble.FAILING: counts is not None and counts.failed > MAX_FAILING * ended,
            Trouble.UNCERTAIN: counts is not None and counts.uncertain > 0,
            Trouble.LATE: late is not None and late > BUDGET_MS,
            Trouble.PAUSED: self.paused_at is not None,
            Trouble.HELD: self.held is not None and self.paused_at is None,
            Trouble.LETTERS: self.letters > 0,
        }
        return [trouble for trouble, holds in found.items() if holds]


class EndpointOrder(StrEnum):
    """Order of a list of endpoints."""

    TROUBLE = "trouble"
    FAILED = "failed"
    LATENESS = "lateness"
    WAITING = "waiting"
    LETTERS = "letters"
    ATTEMPTS = "attempts"
    NAME = "name"


def ordered(states: Sequence[EndpointState], order: EndpointOrder) -> list[EndpointState]:
    """Sort endpoints by the wanted figure, largest first, and equal endpoints by name."""
    return sorted(states, key=lambda each: (*(-figure for figure in _figures(each, order)), each.endpoint))


def _figures(state: EndpointState, order: EndpointOrder) -> tuple[float, ...]:
    counts = None if state.deliveries is None else state.deliveries.counts
    attempts, failed = (0, 0) if counts is None else (counts.attempts, counts.failed)
    late = -1 if counts is None else counts.lateness.percentile(0.99) or 0
    figures: dict[EndpointOrder, tuple[float, ...]] = {
        EndpointOrder.TROUBLE: (sum(_WEIGHTS[each] for each in state.troubles), failed, attempts),
        EndpointOrder.FAILED: (failed,),
        EndpointOrder.LATENESS: (late,),
        EndpointOrder.WAITING: (0 if state.held is None else state.held.waiting,),
        EndpointOrder.LETTERS: (state.letters,),
        EndpointOrder.ATTEMPTS: (attempts,),
        EndpointOrder.NAME: (),
    }
    return figures[order]
