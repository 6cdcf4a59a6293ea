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

ENDPOINTS, HANGING = 200, HOSTS - 1  # the last host is that of the one that hangs alone
_CREATED_A_SECOND = 2000  # at least
_GRACE_SECONDS = 2.0  # after the last one was due; what has not come by then counts as late until then
_WARM = 2

SHARE = Figure("delivered of what came due", "%", 1)
KEPT = Figure("rate, by that alone", "", 2)
WORST = Figure("rate of the endpoint that kept least, by that alone", "", 2)
LATE = [Figure(f"late by, p{share}", "ms", 1) for share in (50, 99)]
TIMES = Figure("late by, p99, by that alone", "", 2)
HELD = Figure("most slots that those that hang held", "")


@dataclass(frozen=True, slots=True)
class Load:
    """Deliveries that come due at a steady rate, spread over the endpoints that answer."""

    rate: float
    seconds: float
    pause: float = 4.0
    """Seconds before it, in which those that hang take what they get and a client starts while the cores are busy."""

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
    first = time.time() + load.pause + load.rate * load.seconds / _CREATED_A_SECOND
    streams = load.streams(urls, first)
    due = crowd.enqueue(streams, **fields)
    if (after := time.time() - first) > 0:
        print(
            f"  {crowd.name}: the load was complete {after:.1f} s after its beginning, which counts as late", flush=True
        )
    end = max(stream.instants()[-1] for stream in streams) + _GRACE_SECONDS
    time.sleep(max(0.0, end - time.time()))
    came, now = arrivals.times(), time.time()
    by_url = {url: sum(key in came for key in of_url) / len(of_url) for url, of_url in due.items()}
    instants = {key: instant for of_url in due.values() for key, instant in of_url.items()}
    late = [(came.get(key, now) - instant) * 1000 for key, instant in instants.items()]
    return Seen(sum(key in came for key in instants) / len(instants), by_url, late)


def measure(run: Run, crowds: Sequence[Crowd], arrivals: Arrivals, load: Load, *, due: int, rounds: int) -> Section:
    """Deliver the load alone, beside one endpoint that hangs and beside many, which have as much due in all."""
    section = run.section(f"Isolation: {load.rate:,.0f}/s at {ENDPOINTS - HANGING} endpoints, beside others that hang")
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
    single = [arrivals.url_of("/hang/alone", host=HOSTS)]
    many = [arrivals.url_of(f"/hang/{number}", host=1 + number) for number in range(HANGING)]
    crowd.register([*quick, *single, *many])
    alone = None
    for hanging in (single, many):
        arrivals.clear()
        crowd.enqueue([Stream(url, _WARM) for url in quick])
        with crowd.at_work(kill=True) as workers:
            arrivals.wait_for(_WARM * len(quick), check=lambda: check(workers))
            if alone is None:
                alone = deliver(crowd, arrivals, quick, load)
                keep(section, f"{crowd.name}, alone", alone, alone)
                section.add(HELD, f"{crowd.name}, alone", 0)
            each = max(1, due // len(hanging))
            crowd.enqueue([Stream(url, each) for url in hanging])
            time.sleep(load.pause)
            beside = deliver(crowd, arrivals, quick, load)
            check(workers)
        who = f"{crowd.name}, beside {len(hanging)} x {each:,} due"
        keep(section, who, alone, beside)
        section.add(HELD, who, sum(most for path, most in arrivals.most_open().items() if path.startswith("/hang/")))
        crowd.clear()


def keep(section: Section, who: str, alone: Seen, seen: Seen) -> None:
    """Add what came, and what of that which came alone is left in it."""
    section.add(SHARE, who, seen.share * 100)
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, who, percentile(seen.late_ms, share))
    section.add(KEPT, who, seen.share / alone.share)
    kept = [share / alone.by_url[url] for url, share in seen.by_url.items() if alone.by_url[url]]
    section.add(WORST, who, min(kept))
    section.add(TIMES, who, percentile(seen.late_ms, 0.99) / percentile(alone.late_ms, 0.99))
