"""Count of starts within a window of time."""

from bisect import bisect_right

from app.catalog.endpoints.limits import NS_PER_MS

SECOND = 1000 * NS_PER_MS
MOST = 1_000_000


def most_within(starts: list[int], width: int) -> int:
    """Return the largest number of starts in any window [t, t + width): check each window that begins with a start."""
    ordered = sorted(starts)
    return max((bisect_right(ordered, start + width - 1) - at for at, start in enumerate(ordered)), default=0)
