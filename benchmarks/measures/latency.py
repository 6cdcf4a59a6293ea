"""Time from acceptance of a delivery to its arrival on an idle system, and lateness of delayed deliveries."""

from collections.abc import Sequence

from benchmarks.contenders.contender import Contender, Times, check
from benchmarks.measures.drain import Receiver
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_WARM = 200  # enough deliveries for each process to have had several

IDLE = [
    Figure("accepted to receiver, idle, p50", "ms", 2),
    Figure("accepted to receiver, idle, p99", "ms", 2),
]
LATE = [Figure("late by, p50", "ms", 2), Figure("late by, p99", "ms", 2), Figure("late by, earliest", "ms", 2)]


def measure(
    run: Run, contenders: Sequence[Contender], arrivals: Receiver, samples: int, rounds: int, *, title: str = "Latency"
) -> Section:
    """Measure the contenders one after the other, each alone."""
    return add(run, run.section(title), contenders, arrivals, samples=samples, rounds=rounds)


def add(
    run: Run, section: Section, contenders: Sequence[Contender], arrivals: Receiver, *, samples: int, rounds: int
) -> Section:
    """Measure further contenders into a section."""
    for _ in range(rounds):
        for contender in contenders:
            run.calibrate()
            _one(section, contender, arrivals, samples)
            run.remark(f"{contender.name}: {contender.remark}")
            print(f"  {contender.name}: latency taken", flush=True)
    run.calibrate()
    return section


def _one(section: Section, contender: Contender, arrivals: Receiver, samples: int) -> None:
    arrivals.clear()
    contender.fill(arrivals.url, _WARM)
    contender.settle()
    with contender.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        if (accepted := contender.idle(arrivals.url, samples)) is not None:
            waited = _after(accepted, arrivals)
            for figure, share in zip(IDLE, (0.5, 0.99), strict=True):
                # A delivery that arrived before the client had read its answer counts as 0.
                section.add(figure, contender.name, max(0.0, percentile(waited, share)))
        if (due := contender.delayed(arrivals.url, samples)) is not None:
            late = _after(due, arrivals)
            for figure, share in zip(LATE, (0.5, 0.99, 0.0), strict=True):
                section.add(figure, contender.name, percentile(late, share))


def _after(instants: Times, arrivals: Receiver) -> list[float]:
    """Wait for all keys, and return by how many milliseconds each arrived after its instant."""
    arrivals.wait_for_keys(instants)
    times = arrivals.times()
    return [(times[key] - instant) * 1000 for key, instant in instants.items()]
