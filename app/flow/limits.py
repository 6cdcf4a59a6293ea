"""Limits of an endpoint: how many executions may run at once, and how many may start in a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in `per_ns`: a token bucket that holds `burst`, or a sliding window."""

    count: int
    per_ns: int
    burst: int
    is_sliding: bool

    @property
    def period_ns(self) -> int:
        """Return the time between two starts, rounded up: never more than `count` in `per_ns`."""
        return -(-self.per_ns // self.count)

    @property
    def span_ns(self) -> int:
        """Return how far ahead of the pace a full bucket may run."""
        return self.burst * self.period_ns

    @property
    def bucket_ns(self) -> int:
        """Return the width of a hundredth of a sliding window."""
        return -(-self.per_ns // 100)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of each key: what the template `key` makes of an input."""

    key: str
    max_in_flight: int | None
    rate: Rate | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an endpoint, and those of each of its keys."""

    max_in_flight: int | None
    rate: Rate | None
    per_key: KeyLimits | None
