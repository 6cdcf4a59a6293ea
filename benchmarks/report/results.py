"""Results: figures by section, each with the values of all rounds for everyone who was measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """What a value says."""

    name: str
    unit: str
    digits: int = 0
    is_yardstick: bool = False
    """A peer's values say how steady the machine was."""


@dataclass(slots=True)
class Section:
    """Figures that were measured together."""

    title: str
    values: dict[Figure, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, figure: Figure, who: str, value: float) -> None:
        """Keep the value of a round."""
        self.values.setdefault(figure, {}).setdefault(who, []).append(value)

    @property
    def everyone(self) -> list[str]:
        """Return who was measured, in the order of the first value."""
        return list(dict.fromkeys(who for values in self.values.values() for who in values))


def percentile(values: Sequence[float], share: float) -> float:
    """Read a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float], digits: int = 0) -> str:
    """Show a median, and the range when there are several values."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
