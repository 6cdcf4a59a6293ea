"""Figures and their ratios, printed as a table."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement of ours beside the yardstick's, in the same unit."""

    name: str
    unit: str
    ours: float
    yardstick: float
    yardstick_name: str = "Dramatiq + Redis"

    @property
    def ratio(self) -> str:
        """Ours by the yardstick's."""
        return f"{self.ours / self.yardstick:.2f}x" if self.yardstick else "-"


def percentile(values: Sequence[float], share: float) -> float:
    """Read a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    print(f"\n{'':44}{'ours':>12}{'yardstick':>12}{'ratio':>9}  yardstick")
    for figure in figures:
        name = f"{figure.name}, {figure.unit}"
        print(f"{name:44}{figure.ours:12,.1f}{figure.yardstick:12,.1f}{figure.ratio:>9}  {figure.yardstick_name}")
