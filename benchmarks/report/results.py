"""Results: metrics by section, each with the values of all rounds for each contender."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """Name, unit and format of a measured value."""

    name: str
    unit: str
    digits: int = 0
    is_yardstick: bool = False
    """Whether the values of peers show how steady the machine was."""


@dataclass(slots=True)
class Section:
    """Metrics that were measured together; `values` are by metric, then by column of the table."""

    title: str
    values: dict[Figure, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, figure: Figure, column: str, value: float) -> None:
        """Add the value of a round."""
        self.values.setdefault(figure, {}).setdefault(column, []).append(value)

    @property
    def columns(self) -> list[str]:
        """Return the columns of the table, in the order of their first values."""
        return list(dict.fromkeys(column for values in self.values.values() for column in values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float], digits: int = 0) -> str:
    """Format a median, with the range if there are several values."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
