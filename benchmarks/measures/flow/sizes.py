"""Sizes of the flow measurements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows and times; with the largest size, all parts together take less than 25 minutes on two cores."""

    load: float
    """Deliveries per second beside hanging endpoints, and beside a flood of one key."""
    load_seconds: float
    pause: float
    """Seconds before each load."""
    busy: float
    """Deliveries per second beside the catch-up of ticks."""
    seconds: float
    """Length of a drain, and of the flood of the API."""
    limited_seconds: float
    """Length of the measurements of a rate limit."""
    hang: int
    """Due deliveries of all hanging endpoints together."""
    keys: int
    flood: int
    """Due deliveries of the key that floods."""
    retries: int
    """Waiting retries of the highest priority."""
    backlog: int
    ticking: int
    """One-minute jobs whose scheduler was down for an hour."""
    turns: int
    """Repetitions of drains that are compared, in turn."""


SIZES = {
    "full": Sizes(
        load=600,
        load_seconds=15,
        pause=4,
        busy=2000,
        seconds=10,
        limited_seconds=60,
        hang=100_000,
        keys=10_000,
        flood=100_000,
        retries=1_000_000,
        backlog=1_000_000,
        ticking=1000,
        turns=2,
    ),
    "tenth": Sizes(
        load=600,
        load_seconds=5,
        pause=4,
        busy=1000,
        seconds=3,
        limited_seconds=11,
        hang=10_000,
        keys=1000,
        flood=10_000,
        retries=100_000,
        backlog=100_000,
        ticking=200,
        turns=1,
    ),
    "smallest": Sizes(
        load=100,
        load_seconds=0.2,
        pause=0.5,
        busy=100,
        seconds=0.2,
        limited_seconds=0.2,
        hang=100,
        keys=100,
        flood=200,
        retries=100,
        backlog=10_000,
        ticking=50,
        turns=1,
    ),
}
