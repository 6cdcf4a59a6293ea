"""What priorities cost a claim, what low ones get beside high ones, and what keys of one endpoint get."""

import time
from contextlib import closing

import psycopg2

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import OurCrowd
from benchmarks.measures.flow import pace
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_ENDPOINTS = 20
_PRIORITIES = 8
_A_SECOND = 5000  # more than any machine delivers
_OF_EACH = 3
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.25
_BY_PRIORITY = "SELECT priority, count(*) FROM executions WHERE status = 'SUCCESS' GROUP BY priority"
_WITHOUT_PROGRESS = """
SELECT count(*) FILTER (WHERE started = 0), coalesce(sum(started) FILTER (WHERE limit_key = '=big'), 0)
  FROM (SELECT limit_key, count(*) FILTER (WHERE status <> 'QUEUED') AS started
          FROM executions GROUP BY limit_key) AS of_key
"""

RATE = Figure("drain", "1/s")
COST = Figure("CPU of PostgreSQL for each delivery", "ms", 3)
RATIO = Figure("CPU of PostgreSQL, by that with one priority", "", 2)
LOW_SHARE = Figure("share of the low priority beside an endless high one", "%", 1)
ALL_STARTED = Figure("until each key had a start", "s", 1)
BIG_THEN = Figure("started by then of the largest key", "%", 1)
KEYS_RATE = Figure("drain of the keys, at most two of each in flight", "1/s")

ONE, MANY = "one priority", f"{_PRIORITIES} priorities"


def measure(run: Run, crowd: OurCrowd, arrivals: Arrivals, *, seconds: float, future: int, rounds: int) -> Section:
    """Drain the same backlog with one priority, with many, and with many retries that wait in the highest."""
    section = run.section(f"Priorities, {_ENDPOINTS} endpoints")
    waits = f"{MANY}, {future:,} retries wait in the highest"
    for _ in range(rounds):
        costs = {}
        run.calibrate()
        for who, priority, waiting in (
            (ONE, "128", 0),
            (MANY, f"mod(n, {_PRIORITIES})", 0),
            (waits, f"mod(n, {_PRIORITIES})", future),
        ):
            taken = _drain(crowd, arrivals, seconds, priority, waiting)
            costs[who] = taken.database_ms
            section.add(RATE, who, taken.rate)
            section.add(COST, who, taken.database_ms)
            section.add(RATIO, who, taken.database_ms / costs[ONE])
            run.calibrate()
            print(f"  priorities: {who} taken", flush=True)
        section.add(LOW_SHARE, MANY, _low_share(crowd, arrivals, seconds))
    return section


def _urls(arrivals: Arrivals) -> list[str]:
    return [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]


def _drain(crowd: OurCrowd, arrivals: Arrivals, seconds: float, priority: str, waiting: int) -> pace.Pace:
    arrivals.clear()
    if waiting:
        in_a_day = "now() + INTERVAL '1 day' + n * INTERVAL '1 millisecond'"
        highest = {"priority": str(_PRIORITIES - 1)}
        crowd.fill(_urls(arrivals), waiting // _ENDPOINTS, status="RETRYING", due=in_a_day, columns=highest)
    crowd.fill(_urls(arrivals), round(_A_SECOND * seconds / _ENDPOINTS), columns={"priority": priority})
    crowd.ours.settle()
    taken = pace.take(crowd, arrivals, seconds)
    crowd.clear()
    return taken


def _low_share(crowd: OurCrowd, arrivals: Arrivals, seconds: float) -> float:
    """Deliver from two backlogs of the same endpoints that do not end."""
    arrivals.clear()
    crowd.fill(
        _urls(arrivals), round(2 * _A_SECOND * seconds / _ENDPOINTS), columns={"priority": "10 + 190 * mod(n, 2)"}
    )
    crowd.ours.settle()
    pace.take(crowd, arrivals, seconds)
    done = dict(_ask(crowd, _BY_PRIORITY))
    crowd.clear()
    return done.get(10, 0) / sum(done.values()) * 100


def keys(run: Run, crowd: OurCrowd, arrivals: Arrivals, count: int, rounds: int) -> Section:
    """Deliver few of each of very many keys beside one key with twice as many as there are keys."""
    section = run.section(f"{count:,} keys of one endpoint with {_OF_EACH} each, beside one with {2 * count:,}")
    url = arrivals.url_of("/keys")
    crowd.register([url], limits={"per_key": {"key": "{{input.user_id}}", "max_in_flight": 2}})
    for _ in range(rounds):
        run.calibrate()
        arrivals.clear()
        crowd.fill([url], 2 * count, columns={"limit_key": "'=big'"})
        for _each in range(_OF_EACH):
            crowd.fill([url], count, columns={"limit_key": "'=' || n"})
        crowd.ours.settle()
        _until_each_has_begun(section, crowd, arrivals, count)
        crowd.clear()
    run.calibrate()
    return section


def _until_each_has_begun(section: Section, crowd: OurCrowd, arrivals: Arrivals, count: int) -> None:
    with crowd.at_work() as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        began, without, big = time.monotonic(), 1, 0
        while without and time.monotonic() - began < _PATIENCE_SECONDS:
            time.sleep(_POLL_SECONDS)
            [(without, big)] = _ask(crowd, _WITHOUT_PROGRESS)
        took = time.monotonic() - began
        section.add(KEYS_RATE, crowd.name, arrivals.counts()["arrived"] / took)
    section.add(ALL_STARTED, crowd.name, float("inf") if without else took)
    section.add(BIG_THEN, crowd.name, big / (2 * count) * 100)


def _ask(crowd: OurCrowd, query: str) -> list[tuple[int, int]]:
    with closing(psycopg2.connect(crowd.ours.stack.database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return [(int(first), int(second)) for first, second in cursor.fetchall()]
