"""What endpoints that hang, each with a backlog, leave of the rate and the lateness of all others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.arrivals import HOSTS, Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import Crowd, Stream
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

ENDPOINTS, HANGING = 200, HOSTS
_CREATED_A_SECOND = 1500  # at least
_LEAD_SECONDS = 1.0
_SETTLE_SECONDS = 3.0  # in which those that hang take what they get
_GRACE_SECONDS = 2.0  # after the last one was due; what has not come by then counts as late until then
_WARM = 2

ALONE = Figure("delivered of what came due, alone", "%", 1)
BESIDE = Figure("delivered of what came due, beside those that hang", "%", 1)
KEPT = Figure("rate kept", "", 2)
WORST = Figure("rate kept by the endpoint that kept least", "", 2)
LATE_ALONE = [Figure(f"late by, p{share}, alone", "ms", 1) for share in (50, 99)]
LATE_BESIDE = [Figure(f"late by, p{share}, beside those that hang", "ms", 1) for share in (50, 99)]
TIMES = Figure("late by, p99, by that alone", "", 2)
HELD = Figure("most slots that those that hang held", "")


@dataclass(frozen=True, slots=True)
class Load:
    """Deliveries that come due at a steady rate, spread over the endpoints that answer."""

    rate: float
    seconds: float

    def streams(self, urls: Sequence[str], first: float) -> list[Stream]:
        """Let each URL have its turn."""
        each = max(1, round(self.rate * self.seconds / len(urls)))
        return [Stream(url, each, first + number / self.rate, len(urls) / self.rate) for number, url in enumerate(urls)]


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a load: the share that was delivered, of each URL too, and by how much each delivery was late."""

    share: float
    by_url: dict[str, float]
    late_ms: list[float]


def deliver(crowd: Crowd, arrivals: Arrivals, urls: Sequence[str], load: Load, **fields: Any) -> Seen:
    """Create a load, our jobs with these fields, and wait until a moment after its end, whatever has come by then."""
    streams = load.streams(urls, time.time() + _LEAD_SECONDS + load.rate * load.seconds / _CREATED_A_SECOND)
    due = crowd.enqueue(streams, **fields)
    end = max(stream.instants()[-1] for stream in streams) + _GRACE_SECONDS
    time.sleep(max(0.0, end - time.time()))
    came, now = arrivals.times(), time.time()
    by_url = {url: sum(key in came for key in of_url) / len(of_url) for url, of_url in due.items()}
    instants = {key: instant for of_url in due.values() for key, instant in of_url.items()}
    late = [(came.get(key, now) - instant) * 1000 for key, instant in instants.items()]
    return Seen(sum(key in came for key in instants) / len(instants), by_url, late)


def measure(run: Run, crowds: Sequence[Crowd], arrivals: Arrivals, load: Load, *, due: int, rounds: int) -> Section:
    """Deliver the load alone, then beside so many due deliveries of each endpoint that hangs."""
    title = f"Isolation: {ENDPOINTS - HANGING} endpoints with {load.rate:,.0f}/s, beside {HANGING} that hang"
    section = run.section(f"{title} with {due:,} due each")
    for _ in range(rounds):
        for crowd in crowds:
            run.calibrate()
            _one(section, crowd, arrivals, load, due)
            run.remark(f"{crowd.name}: {crowd.remark}")
            print(f"  isolation: {crowd.name} taken", flush=True)
    run.calibrate()
    return section


def _one(section: Section, crowd: Crowd, arrivals: Arrivals, load: Load, due: int) -> None:
    quick = [arrivals.url_of(f"/quick/{number}") for number in range(ENDPOINTS - HANGING)]
    hanging = [arrivals.url_of(f"/hang/{number}", host=1 + number) for number in range(HANGING)]
    crowd.register([*quick, *hanging])
    arrivals.clear()
    crowd.enqueue([Stream(url, _WARM) for url in quick])
    with crowd.at_work() as workers:
        arrivals.wait_for(_WARM * len(quick), check=lambda: check(workers))
        alone = deliver(crowd, arrivals, quick, load)
        crowd.enqueue([Stream(url, due) for url in hanging])
        time.sleep(_SETTLE_SECONDS)
        beside = deliver(crowd, arrivals, quick, load)
        check(workers)
    held = sum(most for path, most in arrivals.most_open().items() if path.startswith("/hang/"))
    crowd.clear()
    keep(section, crowd.name, alone, beside)
    section.add(HELD, crowd.name, held)


def keep(section: Section, who: str, alone: Seen, beside: Seen) -> None:
    """Add what of the first is left in the second."""
    section.add(ALONE, who, alone.share * 100)
    section.add(BESIDE, who, beside.share * 100)
    section.add(KEPT, who, beside.share / alone.share)
    kept = [share / alone.by_url[url] for url, share in beside.by_url.items() if alone.by_url[url]]
    section.add(WORST, who, min(kept))
    for figures, seen in ((LATE_ALONE, alone), (LATE_BESIDE, beside)):
        for figure, share in zip(figures, (0.5, 0.99), strict=True):
            section.add(figure, who, percentile(seen.late_ms, share))
    section.add(TIMES, who, percentile(beside.late_ms, 0.99) / percentile(alone.late_ms, 0.99))
