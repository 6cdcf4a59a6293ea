"""Limits: whether they hold, and how much of the limit is used under a larger load."""

from collections.abc import Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.flow_contenders import FlowContender, OurFlowContender, Stream
from benchmarks.measures.flow import throughput
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

IN_FLIGHT, HELD_SECONDS = 20, 0.05
RATE, BURST = 100, 20
WINDOW_SECONDS, IN_WINDOW = 10, 500
_LIMITS = {
    "bucket": {"rate": {"count": RATE, "per": "1s", "burst": BURST}},
    "window": {"rate": {"count": IN_WINDOW, "per": f"{WINDOW_SECONDS}s", "window": "sliding"}},
}
_WORKERS = (1, 2)
_MINUTE = 60

MOST_OPEN = Figure(f"max_in_flight {IN_FLIGHT}: most open at the receiver", "")
THROUGHPUT = Figure(
    f"max_in_flight {IN_FLIGHT}: used, of the maximum with answers after {HELD_SECONDS * 1000:.0f} ms", "%", 1
)
MOST_IN_A_MINUTE = Figure(f"{RATE}/s, burst {BURST}: most in any minute at the receiver", "")
MOST_IN_A_SECOND = Figure(f"{RATE}/s, burst {BURST}: most in any second at the receiver", "")
BUCKET_USED = Figure(f"{RATE}/s, burst {BURST}: used", "%", 1)
MOST_IN_A_WINDOW = Figure(f"{IN_WINDOW} in any {WINDOW_SECONDS} s: most at the receiver", "")
WINDOW_USED = Figure(f"{IN_WINDOW} in any {WINDOW_SECONDS} s: used", "%", 1)


def measure(
    run: Run, contenders: Sequence[FlowContender], arrivals: Arrivals, *, seconds: float, limited: float, rounds: int
) -> Section:
    """Load limited endpoints above their limits; the use of a rate is measured over `limited` seconds."""
    section = run.section(f"Limits: max_in_flight for {seconds:g} s, rates for {limited:g} s")
    for _ in range(rounds):
        run.calibrate()
        for contender in contenders:
            _in_flight(section, contender, arrivals, seconds)
            if isinstance(contender, OurFlowContender):
                for workers in _WORKERS:
                    _rates(section, contender, arrivals, limited, workers)
            print(f"  limits: {contender.name} taken", flush=True)
    run.calibrate()
    run.remark("rates: pgqueuer 1.6 has only a concurrency_limit, so it is not measured there")
    return section


def _in_flight(section: Section, contender: FlowContender, arrivals: Arrivals, seconds: float) -> None:
    url, ideal = arrivals.held_url(HELD_SECONDS, "limited"), IN_FLIGHT / HELD_SECONDS
    limited = contender.limited_to(IN_FLIGHT)
    limited.register([url])
    arrivals.clear()
    limited.enqueue([Stream(url, 100 + round(2 * ideal * seconds))])
    taken = throughput.measure(limited, arrivals, seconds)
    section.add(MOST_OPEN, limited.name, max(arrivals.most_open().values()))
    section.add(THROUGHPUT, limited.name, taken.rate / ideal * 100)
    limited.clear()


def _rates(section: Section, contender: OurFlowContender, arrivals: Arrivals, seconds: float, workers: int) -> None:
    """Deliver through a token bucket and a sliding window concurrently."""
    urls = {kind: arrivals.url_of(f"/{kind}") for kind in _LIMITS}
    for kind, url in urls.items():
        contender.register([url], limits=_LIMITS[kind])
    arrivals.clear()
    contender.enqueue([Stream(url, round(2 * RATE * (seconds + WINDOW_SECONDS))) for url in urls.values()])
    paths = [f"/{kind}" for kind in _LIMITS]
    throughput.measure(contender, arrivals, seconds, workers=workers, beside=lambda: arrivals.wait_for_paths(paths))
    column = f"{contender.name}, {2 * workers} processes"
    bucket, window = (arrivals.times_of(path) for path in paths)
    section.add(MOST_IN_A_SECOND, column, throughput.most_within(bucket, 1))
    if seconds >= _MINUTE:
        section.add(MOST_IN_A_MINUTE, column, throughput.most_within(bucket, _MINUTE))
    section.add(BUCKET_USED, column, len(bucket) / (BURST + RATE * (bucket[-1] - bucket[0])) * 100)
    section.add(MOST_IN_A_WINDOW, column, throughput.most_within(window, WINDOW_SECONDS))
    windows = 1 + int((window[-1] - window[0]) / WINDOW_SECONDS)
    section.add(WINDOW_USED, column, len(window) / (IN_WINDOW * windows) * 100)
    contender.clear()
