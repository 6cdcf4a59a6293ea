"""Rate at which a backlog of HTTP deliveries drains, and the CPU time that each takes."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.dev.process.child import Child, ChildError
from benchmarks import cpu
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import Contender

_STEADY = (0.1, 0.9)


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain: rates a second, CPU time in milliseconds a delivery."""

    fill: float
    rate: float
    steady: float
    """Between the first and the last tenth of the deliveries, as the CPU times are."""
    python_ms: float
    database_ms: float
    repeats: int


@dataclass(frozen=True, slots=True)
class _Reading:
    arrived: int
    python: float
    database: float


def drain(contender: Contender, arrivals: Arrivals, count: int) -> Drain:
    """Fill the queue, start the workers, wait for the last delivery, stop the workers."""
    fill = contender.fill(arrivals.url, count)
    contender.settle()
    arrivals.clear()
    workers = contender.start()
    try:
        first, last = (_read(contender, workers, arrivals, int(count * share)) for share in _STEADY)
        arrivals.wait_for(count, check=lambda: _check(workers))
    finally:
        for worker in workers:
            worker.stop(30)
    times = sorted(arrivals.times().values())
    steady = times[int(count * _STEADY[0]) : int(count * _STEADY[1])]
    done = last.arrived - first.arrived
    return Drain(
        fill=fill,
        rate=count / (times[-1] - times[0]),
        steady=len(steady) / (steady[-1] - steady[0]),
        python_ms=(last.python - first.python) / done * 1000,
        database_ms=(last.database - first.database) / done * 1000,
        repeats=arrivals.counts()["repeats"],
    )


def rounds(contenders: list[Contender], arrivals: Arrivals, count: int, times: int) -> Iterator[tuple[str, Drain]]:
    """Measure one after the other, so often; every second round in the opposite order."""
    for number in range(times):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            yield contender.name, drain(contender, arrivals, count)


def _read(contender: Contender, workers: list[Child], arrivals: Arrivals, count: int) -> _Reading:
    """Wait until so many have arrived, and read the clocks of the processors."""
    arrived = arrivals.wait_for(count, check=lambda: _check(workers))
    python = cpu.seconds(*(worker.pid for worker in workers))
    return _Reading(arrived, python, cpu.seconds(contender.database_pid) if contender.database_pid else 0.0)


def _check(workers: list[Child]) -> None:
    for worker in workers:
        if not worker.is_running:
            raise ChildError(f"{worker.name} ended with status {worker.returncode}:\n{worker.tail()}")
