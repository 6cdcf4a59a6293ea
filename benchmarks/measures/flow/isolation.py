"""Isolation: the rate and lateness of deliveries beside hanging endpoints with backlogs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.arrivals import HOSTS, Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.flow_contenders import FlowContender, Stream
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

ENDPOINTS, HANGING = 200, HOSTS - 1  # the last host is for the endpoint that hangs alone
_CREATED_A_SECOND = 2000  # conservative rate of creating jobs
_GRACE_SECONDS = 2.0  # time after the last due time; a missing delivery counts as late until then
_WARM = 2

SHARE = Figure("delivered, of due deliveries", "%", 1)
KEPT = Figure("rate, relative to the run alone", "", 2)
WORST = Figure("lowest rate of an endpoint, relative to the run alone", "", 2)
LATE = [Figure(f"late by, p{share}", "ms", 1) for share in (50, 99)]
TIMES = Figure("late by, p99, relative to the run alone", "", 2)
HELD = Figure("most slots held by hanging endpoints", "")


@dataclass(frozen=True, slots=True)
class Load:
    """Deliveries that come due at a steady rate, spread over the endpoints that answer."""

    rate: float
    seconds: float
    pause: float = 4.0
    """Seconds before the load: hanging endpoints take their slots, and the client starts on busy cores."""

    def streams(self, urls: Sequence[str], first: float) -> list[Stream]:
        """Return a stream for each URL; the URLs take turns."""
        each = max(1, round(self.rate * self.seconds / len(urls)))
        return [Stream(url, each, first + number / self.rate, len(urls) / self.rate) for number, url in enumerate(urls)]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of a load: the delivered share in total and by URL, and the lateness of each delivery."""

    share: float
    by_url: dict[str, float]
    late_ms: list[float]


def deliver(contender: FlowContender, arrivals: Arrivals, urls: Sequence[str], load: Load, **fields: Any) -> LoadResult:
    """Create a load, with `fields` in our jobs, and return its result a moment after its end."""
    first = time.time() + load.pause + load.rate * load.seconds / _CREATED_A_SECOND
    streams = load.streams(urls, first)
    due = contender.enqueue(streams, **fields)
    if (after := time.time() - first) > 0:
        print(
            f"  {contender.name}: the load was complete {after:.1f} s after its begin, which counts as late", flush=True
        )
    end = max(stream.instants()[-1] for stream in streams) + _GRACE_SECONDS
    time.sleep(max(0.0, end - time.time()))
    arrived_at, now = arrivals.times(), time.time()
    by_url = {url: sum(key in arrived_at for key in of_url) / len(of_url) for url, of_url in due.items()}
    instants = {key: instant for of_url in due.values() for key, instant in of_url.items()}
    late = [(arrived_at.get(key, now) - instant) * 1000 for key, instant in instants.items()]
    return LoadResult(sum(key in arrived_at for key in instants) / len(instants), by_url, late)


def measure(
    run: Run, contenders: Sequence[FlowContender], arrivals: Arrivals, load: Load, *, due: int, rounds: int
) -> Section:
    """Deliver the load alone, beside one hanging endpoint, and beside many with the same number due in total."""
    section = run.section(f"Isolation: {load.rate:,.0f}/s at {ENDPOINTS - HANGING} endpoints, beside hanging endpoints")
    for _ in range(rounds):
        for contender in contenders:
            run.calibrate()
            _one(section, contender, arrivals, load, due)
            run.remark(f"{contender.name}: {contender.remark}")
            print(f"  isolation: {contender.name} taken", flush=True)
    run.calibrate()
    return section


def _one(section: Section, contender: FlowContender, arrivals: Arrivals, load: Load, due: int) -> None:
    quick = [arrivals.url_of(f"/quick/{number}") for number in range(ENDPOINTS - HANGING)]
    single = [arrivals.url_of("/hang/alone", host=HOSTS)]
    many = [arrivals.url_of(f"/hang/{number}", host=1 + number) for number in range(HANGING)]
    contender.register([*quick, *single, *many])
    alone = None
    for hanging in (single, many):
        arrivals.clear()
        contender.enqueue([Stream(url, _WARM) for url in quick])
        with contender.at_work(kill=True) as workers:
            arrivals.wait_for(_WARM * len(quick), check=lambda: check(workers))
            if alone is None:
                alone = deliver(contender, arrivals, quick, load)
                add_results(section, f"{contender.name}, alone", alone, alone)
                section.add(HELD, f"{contender.name}, alone", 0)
            each = max(1, due // len(hanging))
            contender.enqueue([Stream(url, each) for url in hanging])
            time.sleep(load.pause)
            beside = deliver(contender, arrivals, quick, load)
            check(workers)
        column = f"{contender.name}, beside {len(hanging)} x {each:,} due"
        add_results(section, column, alone, beside)
        section.add(HELD, column, sum(most for path, most in arrivals.most_open().items() if path.startswith("/hang/")))
        contender.clear()


def add_results(section: Section, column: str, alone: LoadResult, result: LoadResult) -> None:
    """Add the result of a load, and its ratios to the result of the load alone."""
    section.add(SHARE, column, result.share * 100)
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, column, percentile(result.late_ms, share))
    section.add(KEPT, column, result.share / alone.share)
    kept = [share / alone.by_url[url] for url, share in result.by_url.items() if alone.by_url[url]]
    section.add(WORST, column, min(kept))
    section.add(TIMES, column, percentile(result.late_ms, 0.99) / percentile(alone.late_ms, 0.99))
