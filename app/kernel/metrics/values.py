"""Values: what one process has counted, in plain lists; nothing is formatted or written before somebody asks."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.kernel.metrics.series import ENDPOINT, Kind, Series

OTHER = "other"
MOST_ENDPOINTS = 100

Labels = tuple[str, ...]
Cell = list[float]
"""A number, or the sum of a histogram and then the count in each of its buckets."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All values of a process at an instant, which is in seconds since 1970, by the names of their series."""

    at: float
    cells: dict[str, dict[Labels, Cell]] = field(default_factory=dict)


class Names:
    """The endpoints that have a label of their own: the first ones that came, for good."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        """Return the label of an endpoint."""
        with self._lock:
            if name not in self._known:
                if len(self._known) >= self.most:
                    return OTHER
                self._known.add(name)
            return name


class Cells(dict[Labels, Cell]):
    """The values of one series by its labels; those of endpoints beyond the bound share one."""

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


class Values:
    """What one process has counted.

    `add`, `observe` and `replace` may be called from any thread, and take a lock. A series that is counted for each job
    has one writer instead, which changes its `cells` itself: `cells[labels][0] += 1`.
    """

    def __init__(self, most_endpoints: int = MOST_ENDPOINTS) -> None:
        self.endpoints = Names(most_endpoints)
        self._lock = threading.Lock()
        self._cells: dict[Series, Cells] = {}
        self._read: dict[Series, Callable[[], float]] = {}

    def cells(self, series: Series) -> Cells:
        """Return the values of a series, for its one writer."""
        with self._lock:
            return self._cells_of(series)

    def add(self, series: Series, *labels: str, amount: float = 1) -> None:
        """Count."""
        with self._lock:
            self._cells_of(series)[labels][0] += amount

    def observe(self, series: Series, value: float, *labels: str) -> None:
        """Take a value into a histogram."""
        with self._lock:
            cell = self._cells_of(series)[labels]
            cell[bisect_left(series.buckets, value) + 1] += 1
            cell[0] += value

    def replace(self, series: Series, values: Mapping[Labels, float]) -> None:
        """Set a gauge, by its labels; what it was before is forgotten."""
        with self._lock:
            cells = self._cells[series] = Cells(series, self.endpoints)
            for labels, value in values.items():
                cells[labels][0] = value

    def set(self, series: Series, value: float, *labels: str) -> None:
        """Set one value of a gauge."""
        with self._lock:
            self._cells_of(series)[labels][0] = value

    def read(self, series: Series, read: Callable[[], float]) -> None:
        """Let a gauge without labels be read when somebody asks; `read` must neither block nor raise."""
        with self._lock:
            self._read[series] = read

    def total(self, series: Series, *labels: str) -> float:
        """Return the sum of a counter over all values whose labels begin with these; of a histogram, how many."""
        with self._lock:
            found = [cell for key, cell in self._cells_of(series).items() if key[: len(labels)] == labels]
        return sum(sum(cell[1:]) if series.buckets else cell[0] for cell in found)

    def totals(self) -> dict[str, float]:
        """Return the sum of each counter that has counted anything, by its name."""
        with self._lock:
            sums = {series: sum(cell[0] for cell in list(cells.values())) for series, cells in self._cells.items()}
        return {series.name: amount for series, amount in sums.items() if series.kind is Kind.COUNTER and amount}

    def snapshot(self) -> Snapshot:
        """Copy all values."""
        with self._lock:
            stored, read = list(self._cells.items()), list(self._read.items())
        found = {series.name: {key: cell.copy() for key, cell in list(cells.items())} for series, cells in stored}
        found |= {series.name: {(): [float(ask())]} for series, ask in read}
        return Snapshot(time.time(), found)

    def clear(self) -> None:
        """Forget everything that was counted: a child that was forked begins anew."""
        self._lock = threading.Lock()  # that of the parent may be held by a thread which does not exist here
        self._cells.clear()
        self.endpoints = Names(self.endpoints.most)

    def _cells_of(self, series: Series) -> Cells:
        cells = self._cells.get(series)
        if cells is None:
            cells = self._cells[series] = Cells(series, self.endpoints)
        return cells
