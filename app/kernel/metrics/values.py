"""Values: the metrics of one process in plain lists; formatted only for a scrape."""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from app.kernel.function_types import Run
from app.kernel.metrics.series import ENDPOINT, Kind, Series

OTHER = "other"
MAX_ENDPOINTS = 100

Labels = tuple[str, ...]
Gauge = Run[float]
Cell = list[float]
"""A number, or the sum of a histogram followed by the count in each bucket."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values of a process by the names of their series; `at` is in seconds since 1970."""

    at: float
    cells: dict[str, dict[Labels, Cell]] = field(default_factory=dict)


class Names:
    """Endpoints with a label of their own: the first `most` that were counted."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        """Return the label of an endpoint, OTHER beyond the bound."""
        with self._lock:
            if name not in self._known:
                if len(self._known) >= self.most:
                    return OTHER
                self._known.add(name)
            return name


class Cells(dict[Labels, Cell]):
    """The values of one series by its labels; endpoints beyond the bound share the label OTHER."""

    def __init__(self, series: Series, endpoints: Names) -> None:
        super().__init__()
        self._size = series.cell_size
        self._endpoint_at = series.labels.index(ENDPOINT) if ENDPOINT in series.labels else None
        self._endpoints = endpoints

    def __missing__(self, labels: Labels) -> Cell:
        at = self._endpoint_at
        if at is not None:
            labels = (*labels[:at], self._endpoints.of(labels[at]), *labels[at + 1 :])
        return self.setdefault(labels, [0.0] * self._size)


class _AllCells(dict[Series, Cells]):
    """The values of all series, created at first access."""

    def __init__(self, endpoints: Names) -> None:
        super().__init__()
        self._endpoints = endpoints

    def __missing__(self, series: Series) -> Cells:
        cells = self[series] = Cells(series, self._endpoints)
        return cells


class Values:
    """The metrics of one process.

    `add`, `observe` and `replace` are thread-safe and take a lock. A series that is counted for each job has one writer
    instead, which changes `cells` without a lock: `cells[labels][0] += 1`.
    """

    def __init__(self, most_endpoints: int = MAX_ENDPOINTS) -> None:
        self.endpoints = Names(most_endpoints)
        self._lock = threading.Lock()
        self._cells = _AllCells(self.endpoints)
        self._read: dict[Series, Gauge] = {}

    def cells(self, series: Series) -> Cells:
        """Return the values of a series, for its only writer."""
        with self._lock:
            return self._cells[series]

    def add(self, series: Series, *labels: str, amount: float = 1) -> None:
        """Increment a counter."""
        with self._lock:
            self._cells[series][labels][0] += amount

    def begin(self, series: Series, *label_values: Iterable[str]) -> None:
        """Report a counter as 0, for each combination of its label values: a rate needs a sample before the first."""
        for labels in product(*label_values):
            self.add(series, *labels, amount=0)

    def observe(self, series: Series, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        with self._lock:
            cell = self._cells[series][labels]
            cell[bisect_left(series.buckets, value) + 1] += 1
            cell[0] += value

    def replace(self, series: Series, values: Mapping[Labels, float]) -> None:
        """Replace all values of a gauge."""
        with self._lock:
            cells = self._cells[series] = Cells(series, self.endpoints)
            for labels, value in values.items():
                cells[labels][0] = value

    def set(self, series: Series, value: float, *labels: str) -> None:
        """Set one value of a gauge."""
        with self._lock:
            self._cells[series][labels][0] = value

    def read(self, series: Series, read: Gauge) -> None:
        """Read a gauge without labels at each snapshot; `read` must neither block nor raise."""
        with self._lock:
            self._read[series] = read

    def total(self, series: Series, *labels: str) -> float:
        """Return the sum of a counter, or the count of a histogram, over the values with these first labels."""
        with self._lock:
            found = [cell for key, cell in self._cells[series].items() if key[: len(labels)] == labels]
        return sum(sum(cell[1:]) if series.buckets else cell[0] for cell in found)

    def totals(self) -> dict[str, float]:
        """Return the sum of each counter above 0, by its name."""
        with self._lock:
            sums = {series: sum(cell[0] for cell in list(cells.values())) for series, cells in self._cells.items()}
        return {series.name: amount for series, amount in sums.items() if series.kind is Kind.COUNTER and amount}

    def snapshot(self) -> Snapshot:
        with self._lock:
            stored, read = list(self._cells.items()), list(self._read.items())
        found = {series.name: {key: cell.copy() for key, cell in list(cells.items())} for series, cells in stored}
        found |= {series.name: {(): [float(ask())]} for series, ask in read}
        return Snapshot(time.time(), found)

    def clear(self) -> None:
        """Reset everything in a forked child."""
        self._lock = threading.Lock()  # the parent's lock may be held by a thread that the child does not have
        self.endpoints = Names(self.endpoints.most)
        self._cells = _AllCells(self.endpoints)
