"""Distributions: counts by classes of milliseconds, and the percentiles that classes allow."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from schema.rollup_bounds import LATE_MS, TOOK_MS

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Distribution(NamedTuple):
    """Counts by class: `bounds` are the upper bounds of the classes, and one more class follows."""

    bounds: Sequence[int]
    counts: Sequence[int]

    @classmethod
    def of_lateness(cls, counts: Sequence[int]) -> Self:
        return cls(LATE_MS, counts)

    @classmethod
    def of_duration(cls, counts: Sequence[int]) -> Self:
        return cls(TOOK_MS, counts)

    @property
    def total(self) -> int:
        return sum(self.counts)

    def percentile(self, share: float) -> int | None:
        """Return the upper bound of the class that has the percentile; None without values.

        Above the last bound, it is that bound and one millisecond.
        """
        seen, wanted = 0, share * self.total
        for bound, count in zip((*self.bounds, self.bounds[-1] + 1), self.counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return None

    def percentiles(self) -> dict[str, int | None]:
        """Return p50, p95 and p99."""
        return {name: self.percentile(share) for name, share in PERCENTILES.items()}

    def within(self, milliseconds: int) -> float | None:
        """Return the share of values up to a bound of the classes; None without values."""
        if not self.total:
            return None
        kept = [count for bound, count in zip(self.bounds, self.counts, strict=False) if bound <= milliseconds]
        return sum(kept) / self.total
