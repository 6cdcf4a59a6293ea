"""Rate at which a backlog of deliveries drains, and CPU time of each delivery."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks import machine
from benchmarks.contenders.contender import Contender, check
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_STEADY = (0.1, 0.9)

RATE = Figure("whole", "1/s")
STEADY = Figure("steady (10-90 %)", "1/s", is_yardstick=True)
RATIO = Figure("steady, relative to ours in the same round", "", 2)
PYTHON = Figure("CPU of the workers", "ms", 3)
DATABASE = Figure("CPU of PostgreSQL", "ms", 3)
RECEIVER = Figure("CPU of the receiver", "ms", 3)
FILL = Figure("enqueued in bulk, one client", "1/s")
REPEATS = Figure("sent twice", "")


class Witness(Protocol):
    """Observer of deliveries: the receiver, or the database."""

    def clear(self) -> None:
        """Delete all records."""

    def wait_for(self, count: int, *, timeout: float = ..., check: Callable[[], object] = ...) -> int:
        """Wait until `count` deliveries were seen, and return their number."""

    def times(self) -> dict[str, float]:
        """Return the time of each delivery by key."""

    def counts(self) -> dict[str, int]:
        """Return the counts, among them `repeats`."""


class Receiver(Witness, Protocol):
    """Witness to which contenders deliver."""

    @property
    def url(self) -> str:
        """Return the URL of the deliveries."""

    def wait_for_keys(self, keys: Collection[str], timeout: float = ...) -> None:
        """Wait until these keys have arrived."""


@dataclass(frozen=True, slots=True)
class _Reading:
    arrived: int
    python: float
    database: float
    receiver: float


def drain(
    contender: Contender,
    url: str,
    witness: Witness,
    count: int,
    *,
    receiver_pid: int | None = None,
    beside: Callable[[], object] = bool,
) -> dict[Figure, float]:
    """Fill the queue, call `beside`, start the workers, wait for the last delivery, stop the workers."""
    fill = contender.fill(url, count)
    contender.settle()
    beside()
    witness.clear()
    with contender.at_work() as workers:

        def read(share: float) -> _Reading:
            arrived = witness.wait_for(int(count * share), check=lambda: check(workers))
            servers = (machine.cpu_seconds(pid) if pid else 0.0 for pid in (contender.database_pid, receiver_pid))
            return _Reading(arrived, machine.cpu_seconds(*(worker.pid for worker in workers)), *servers)

        first, last = (read(share) for share in _STEADY)
        witness.wait_for(count, check=lambda: check(workers))
    times = sorted(witness.times().values())
    steady = times[int(count * _STEADY[0]) : int(count * _STEADY[1])]
    done = max(1, last.arrived - first.arrived)
    return {
        RATE: count / (times[-1] - times[0]),
        STEADY: len(steady) / (steady[-1] - steady[0]),
        PYTHON: (last.python - first.python) / done * 1000,
        DATABASE: (last.database - first.database) / done * 1000,
        RECEIVER: (last.receiver - first.receiver) / done * 1000,
        FILL: fill,
        REPEATS: witness.counts()["repeats"],
    }


def measure(
    run: Run, contenders: Sequence[Contender], arrivals: Receiver, count: int, rounds: int, *, title: str = ""
) -> Section:
    """Drain the backlog of each contender in turn; every second round in the opposite order."""
    section = run.section(title or f"HTTP drain of {count:,}")
    for number in range(rounds):
        figures: dict[str, dict[Figure, float]] = {}
        run.calibrate()
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            figures[contender.name] = drain(contender, arrivals.url, arrivals, count)
            run.calibrate()
            run.remark(f"{contender.name}: {contender.remark}")
            print(_line(contender.name, figures[contender.name]), flush=True)
        for contender in contenders:
            _add_results(section, contender.name, figures[contender.name], figures["ours"])
    return section


def _add_results(section: Section, column: str, figures: dict[Figure, float], ours: dict[Figure, float]) -> None:
    for figure, value in figures.items():
        if value not in {0.0, float("inf")} or figure is REPEATS:
            section.add(figure, column, value)
        if figure is STEADY:
            section.add(RATIO, column, value / ours[STEADY])


def _line(column: str, figures: dict[Figure, float]) -> str:
    shown: Iterable[str] = (f"{figure.name} {value:,.{figure.digits}f}" for figure, value in figures.items())
    return f"  {column}: {'; '.join(shown)}"
