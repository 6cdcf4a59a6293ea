"""Heatmap of lateness: steps of time from left to right, classes of lateness from the bottom to the top."""

from collections.abc import Sequence
from typing import NamedTuple

from app.console.views import words
from app.console.views.delivery_totals import up_to
from app.features.rollups.delivery_history import Point
from schema.rollup_bounds import LATE_MS

SHADES = 5


class Cell(NamedTuple):
    """Attempts of one class of lateness in one step, and their share of the step from 1 to SHADES."""

    column: int
    row: int
    shade: int
    words: str


class Heatmap(NamedTuple):
    """Lateness over time: columns are steps, rows are classes, the latest one on top."""

    columns: int
    labels: Sequence[str]
    cells: Sequence[Cell]


def heatmap_of(points: Sequence[Point]) -> Heatmap:
    """Return the lateness of all steps by class."""
    labels = [up_to(bound) for bound in (*LATE_MS, LATE_MS[-1] + 1)]
    cells = [
        Cell(
            column,
            len(labels) - 1 - number,
            _shade(count / total),
            f"{words.plural(count, 'attempt')} {labels[number]}",
        )
        for column, point in enumerate(points)
        if point.counts is not None and (total := point.counts.lateness.total)
        for number, count in enumerate(point.counts.lateness.counts)
        if count
    ]
    return Heatmap(len(points), labels[::-1], cells)


def _shade(share: float) -> int:
    return next((number for number, bound in enumerate((0.01, 0.05, 0.2, 0.6), 1) if share <= bound), SHADES)
