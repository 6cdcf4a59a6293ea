"""How long the API's lists and reports take."""

import statistics
import time
from collections.abc import Iterator

from benchmarks import history
from benchmarks.contenders.ours import Ours
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from schema.states import ExecutionStatus

_TIMES = 5
_RARE, _COMMON = f"endpoint={history.RARE_ENDPOINT}", "endpoint=history-3"
_UNUSED = f"endpoint={history.UNUSED_ENDPOINT}"
_SINCE = "created_after=2026-01-01T00:00:00Z"
_JOBS = (
    *("", "status=ACTIVE", "status=RETIRED", "status=PAUSED"),
    *("trigger=IMMEDIATE", "trigger=DELAYED", "trigger=CRON", "trigger=INTERVAL"),
    *(_COMMON, _RARE, _UNUSED, f"{_COMMON}&status=PAUSED", f"{_COMMON}&trigger=CRON", f"{_RARE}&status=ACTIVE"),
    *("name=report-1", "name=nobody", "labels=team=team-3", "labels=team=nobody", _SINCE),
    "created_before=2020-01-01T00:00:00Z",
)
_EXECUTIONS = (
    *("", _COMMON, _RARE, _UNUSED, _SINCE, f"{_SINCE}&status=FAILED", f"{_SINCE}&status=RUNNING"),
    *(f"{_RARE}&status=FAILED", f"{_UNUSED}&status=FAILED", f"{_COMMON}&status=CANCELLED", f"{_COMMON}&{_SINCE}"),
    *("created_before=2020-01-01T00:00:00Z",),
)
_OF_JOB = ("", "/status", "/executions", "/executions?status=FAILED", "/versions", "/next-runs")


def measure(run: Run, contenders: list[Ours]) -> Section:
    """Time each with its first call and the median of some more; one that is refused is left out."""
    section = run.section("Lists, the slower of the first call and the median of five")
    for ours in contenders:
        for label, path in _paths(ours):
            first, *more = (_milliseconds(ours, path) for _ in range(1 + _TIMES))
            if first is not None:
                slow = max(first, statistics.median(one for one in more if one is not None))
                section.add(Figure(f"GET {label}", "ms", 1), ours.name, slow)
    return section


def _paths(ours: Ours) -> Iterator[tuple[str, str]]:
    """Yield what each is called, and its path."""
    lists = [f"/jobs?{query}" for query in _JOBS] + [f"/executions?{query}" for query in _EXECUTIONS]
    lists += [f"/executions?status={status}" for status in ExecutionStatus]
    yield from ((path, path) for path in (*lists, "/audit"))
    for job in ours.stack.api.get("/jobs", trigger="CRON")["items"][:1]:
        yield from ((f"/jobs/CRON-JOB{path}", f"/jobs/{job['job_id']}{path}") for path in _OF_JOB)


def _milliseconds(ours: Ours, path: str) -> float | None:
    started = time.perf_counter()
    answer = ours.stack.api.request("GET", path)
    took = (time.perf_counter() - started) * 1000
    return took if answer.ok else None
