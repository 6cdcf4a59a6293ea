"""Deliveries of many keys of one endpoint while one key floods it."""

import time

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.flow_contenders import OurFlowContender
from benchmarks.measures.flow.isolation import Load, LoadResult, deliver
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

ARRIVED = Figure("other keys: delivered, of due deliveries", "%", 1)
LATE = [Figure(f"other keys: late by, p{share}", "ms", 1) for share in (50, 99)]
TIMES = Figure("other keys: late by, p99, relative to no flood", "", 2)
ALL_STARTED = Figure("until each key had a start", "s", 1)
STARTED = Figure("keys with a start by then", "%", 1)
BIG_THEN = Figure("started by then of the largest key", "%", 1)
RATE = Figure("drain of the keys", "1/s")


def measure(
    run: Run, contender: OurFlowContender, arrivals: Arrivals, load: Load, *, keys: int, flood: int, rounds: int
) -> None:
    """Deliver a load of all keys without and beside a flood of one key, then a backlog of all keys."""
    section = run.section(f"{keys:,} keys of one endpoint, at most {_OF_A_KEY} of each in flight")
    backlog = run.section(f"{keys:,} keys with {_OF_EACH} due each, beside one key with {2 * keys:,}")
    for _ in range(rounds):
        run.calibrate()
        _beside_flood(section, contender, arrivals, load, keys=keys, flood=flood)
        run.calibrate()
        _backlog(backlog, contender, arrivals, keys)
    run.calibrate()
    run.remark("keys: pgqueuer 1.6 limits entrypoints, not values of a payload, so it is not measured there")


def _beside_flood(
    section: Section, contender: OurFlowContender, arrivals: Arrivals, load: Load, *, keys: int, flood: int
) -> None:
    url = arrivals.held_url(_HELD_SECONDS, "keys")
    contender.register([url], limits=_LIMITS)
    arrivals.clear()
    contender.fill([url], 1, limit_key=_BIG)
    with contender.at_work() as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        alone = deliver(contender, arrivals, [url], load, customers=range(keys))
        contender.fill([url], flood, limit_key=_BIG)
        contender.settle()
        time.sleep(load.pause)
        # Different keys than before, because the first delivery of a key costs more.
        beside = deliver(contender, arrivals, [url], load, customers=range(keys, 2 * keys))
        check(workers)
    contender.clear()
    _add_results(section, f"{contender.name}, {load.rate:,.0f}/s", alone, alone)
    _add_results(section, f"{contender.name}, {load.rate:,.0f}/s beside {flood:,} due of one more key", alone, beside)


def _add_results(section: Section, column: str, alone: LoadResult, result: LoadResult) -> None:
    section.add(ARRIVED, column, result.share * 100)
    section.add(TIMES, column, percentile(result.late_ms, 0.99) / percentile(alone.late_ms, 0.99))
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, column, percentile(result.late_ms, share))


def _backlog(section: Section, contender: OurFlowContender, arrivals: Arrivals, keys: int) -> None:
    """Deliver a few executions of each of very many keys, beside one key with twice as many as there are keys."""
    url = arrivals.url_of("/keys")
    contender.register([url], limits=_LIMITS)
    arrivals.clear()
    contender.fill([url], 2 * keys, limit_key=_BIG)
    for _ in range(_OF_EACH):
        contender.fill([url], keys, limit_key="'=' || n")
    contender.settle()
    column = contender.name
    with contender.at_work() as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        began, without, big = time.monotonic(), 1, 0
        while without and time.monotonic() - began < _PATIENCE_SECONDS:
            time.sleep(_POLL_SECONDS)
            [(without, big)] = contender.ask(_WITHOUT_PROGRESS)
        took = time.monotonic() - began
        section.add(RATE, column, arrivals.counts()["arrived"] / took)
    section.add(ALL_STARTED, column, float("inf") if without else took)
    section.add(STARTED, column, (keys + 1 - without) / (keys + 1) * 100)
    section.add(BIG_THEN, column, big / (2 * keys) * 100)
    contender.clear()
