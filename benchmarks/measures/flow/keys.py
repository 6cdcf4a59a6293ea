"""What the keys of one endpoint get while one of them floods it."""

import time

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import OurCrowd
from benchmarks.measures.flow.isolation import Load, Seen, deliver
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_HELD_SECONDS, _OF_A_KEY = 0.05, 2
_LIMITS = {"per_key": {"key": "{{input.user_id}}", "max_in_flight": _OF_A_KEY}}
_OF_EACH = 3
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.25
_BIG = "'=big'"
_WITHOUT_PROGRESS = """
SELECT count(*) FILTER (WHERE started = 0), coalesce(sum(started) FILTER (WHERE limit_key = '=big'), 0)
  FROM (SELECT limit_key, count(*) FILTER (WHERE status <> 'QUEUED') AS started
          FROM executions GROUP BY limit_key) AS of_key
"""

CAME = Figure("delivered of what came due for the others", "%", 1)
LATE = [Figure(f"the others late by, p{share}", "ms", 1) for share in (50, 99)]
TIMES = Figure("the others late by, p99, by that without the flood", "", 2)
ALL_STARTED = Figure("until each key had a start", "s", 1)
STARTED = Figure("keys with a start by then", "%", 1)
BIG_THEN = Figure("started by then of the largest key", "%", 1)
RATE = Figure("drain of the keys", "1/s")


def measure(run: Run, crowd: OurCrowd, arrivals: Arrivals, load: Load, *, keys: int, flood: int, rounds: int) -> None:
    """Deliver some of each key without and beside a flood of one key, then a backlog of all keys."""
    section = run.section(f"{keys:,} keys of one endpoint, at most {_OF_A_KEY} of each in flight")
    backlog = run.section(f"{keys:,} keys with {_OF_EACH} due each, beside one with {2 * keys:,}")
    for _ in range(rounds):
        run.calibrate()
        _beside_flood(section, crowd, arrivals, load, keys=keys, flood=flood)
        run.calibrate()
        _backlog(backlog, crowd, arrivals, keys)
    run.calibrate()
    run.remark("keys: pgqueuer 1.6 limits entrypoints, not what a payload says, so it has no figures there")


def _beside_flood(section: Section, crowd: OurCrowd, arrivals: Arrivals, load: Load, *, keys: int, flood: int) -> None:
    url = arrivals.held_url(_HELD_SECONDS, "keys")
    crowd.register([url], limits=_LIMITS)
    arrivals.clear()
    crowd.fill([url], 1, limit_key=_BIG)
    with crowd.at_work() as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        alone = deliver(crowd, arrivals, [url], load, customers=range(keys))
        crowd.fill([url], flood, limit_key=_BIG)
        crowd.settle()
        time.sleep(load.pause)
        # Others than before, as a key costs more at its first time.
        beside = deliver(crowd, arrivals, [url], load, customers=range(keys, 2 * keys))
        check(workers)
    crowd.clear()
    _keep(section, f"{crowd.name}, {load.rate:,.0f}/s", alone, alone)
    _keep(section, f"{crowd.name}, {load.rate:,.0f}/s beside {flood:,} due of one more", alone, beside)


def _keep(section: Section, who: str, alone: Seen, seen: Seen) -> None:
    section.add(CAME, who, seen.share * 100)
    section.add(TIMES, who, percentile(seen.late_ms, 0.99) / percentile(alone.late_ms, 0.99))
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, who, percentile(seen.late_ms, share))


def _backlog(section: Section, crowd: OurCrowd, arrivals: Arrivals, keys: int) -> None:
    """Deliver few of each of very many keys beside one key with twice as many as there are keys."""
    url = arrivals.url_of("/keys")
    crowd.register([url], limits=_LIMITS)
    arrivals.clear()
    crowd.fill([url], 2 * keys, limit_key=_BIG)
    for _ in range(_OF_EACH):
        crowd.fill([url], keys, limit_key="'=' || n")
    crowd.settle()
    who = crowd.name
    with crowd.at_work() as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        began, without, big = time.monotonic(), 1, 0
        while without and time.monotonic() - began < _PATIENCE_SECONDS:
            time.sleep(_POLL_SECONDS)
            [(without, big)] = crowd.ask(_WITHOUT_PROGRESS)
        took = time.monotonic() - began
        section.add(RATE, who, arrivals.counts()["arrived"] / took)
    section.add(ALL_STARTED, who, float("inf") if without else took)
    section.add(STARTED, who, (keys + 1 - without) / (keys + 1) * 100)
    section.add(BIG_THEN, who, big / (2 * keys) * 100)
    crowd.clear()
