"""Figures as a table: medians over the rounds with their ranges."""

import statistics
from collections.abc import Iterable, Sequence


def median(values: Sequence[float], digits: int = 0) -> str:
    """Show a median, and the range when there are several values."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """Read a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table; all columns but the first are aligned to the right."""
    table = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = ["| " + " | ".join(_padded(row, widths)) + " |" for row in table]
    lines.insert(1, "|" + "|".join("-" * (w + 1) + ("-" if n == 0 else ":") for n, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
