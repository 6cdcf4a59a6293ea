"""Executions: the list of a filter, with the reasons of waits."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.list_export import exports
from app.console.http.list_pages import UNTIL, address_behind, position_after
from app.console.http.page_rendering import now, to
from app.console.http.request_values import once_a_request
from app.console.pages.address_filter import SINCE, pinned_address
from app.console.pages.execution_periods import periods_of
from app.console.pages.execution_query import CREATED, ExecutionQueryOfPage, filter_of_address, filter_without
from app.console.views.reason_words import reason_of
from app.kernel.db.paging import Page, PageRequest
from app.kernel.formats import MICROSECOND
from app.queue.executions.execution_records import Execution
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_queries import find_jobs
from app.queue.reading.execution_list import page_of_executions
from app.queue.reading.several_explanations import explain_several
from app.queue.reading.waiting_reasons import Explanation
from app.web.services import services
from schema.states import CANCELLABLE, ExecutionStatus

ROWS = 50
MANY_NEWER = 100
MAX_TRIED, TRIED_ROWS = 4, 1_000  # fields of a filter without a match, each left out once; rows of a scan for each
PRESETS = ("fault", "punctuality", "traffic", "all")
_FIRST = {"status", "endpoint", "error_type", "labels", "since"}  # filters that are always open
PATIENCE_SECONDS = 0.04  # for the scan for rare executions
# For the reasons of waits. On PostgreSQL most of them are known only after the last of about seven statements.
SECONDS_OF_REASONS = 0.5

page = ConsolePage("executions", "/executions", "Executions", reads="GET /executions", nav="Executions", shortcut="e")


@page.show
def show() -> Values:
    """Return the filter, which the frame has: a refresh leaves its fields."""
    found = filter_of_address(now())
    return {
        "given": found.given,
        "faults": found.faults,
        "states": states(found.given.get("status", "")),
        # The API also takes `1` and `yes`.
        "uncertain": "" if found.wanted.uncertain is None else str(found.wanted.uncertain).lower(),
        "columns": columns(),
        "presets": PRESETS,
        "has_more": bool(found.given.keys() - _FIRST - {*CREATED}),
    }


def states(given: str) -> list[tuple[str, str]]:
    """Return the choices of states; several states of the address are one of them, which *Filter* keeps."""
    names = [each.value for each in ExecutionStatus]
    several = [] if not given or given in names else [(given, given.replace(",", " or "))]
    return [*((name, name) for name in names), *several]


@page.region("periods", reads="GET /stats/history", live="rollups")
def periods() -> Values:
    return periods_of(filter_of_address(now()))


@page.region("list", live="executions", pinned=True)
def list_() -> Values:
    """Read a page of the executions that were there when the page was made, with the reasons of their waits."""
    database, found = services().database, filter_of_address(now())
    if found.faults:
        return {"rows": [], "faults": found.faults, "found": found, "older": "", "newer": 0}
    until = query().instant(UNTIL) or now()
    listed = _listed(found, until)
    jobs = {each.job_id: each for each in find_jobs(database, {each.job_id for each in listed.items})}
    reasons = _reasons(listed.items)
    return {
        "rows": [_row(each, jobs.get(each.job_id), reasons.get(each.execution_id)) for each in listed.items],
        "faults": {},
        "found": found,
        "older": address_behind(listed.next),
        "newer": _newer(found, until),
        "pinned": pinned_address(found.given.get(SINCE, ""), CREATED),
        "columns": columns(),
        "reason_of": reason_of,
        "presets": PRESETS,
        "exports": exports("executions", found.given),
    }


@page.region("excluding", refreshed=False)
def excluding() -> Values:
    """Find the field that empties the list; its scans are too many for each change that an open page hears of."""
    found = filter_of_address(now())
    listed = None if found.faults else _listed(found, query().instant(UNTIL) or now())
    return {"excluding": None if listed is None or listed.items or listed.next else _excluding(found)}


def _listed(found: ExecutionQueryOfPage, until: datetime) -> Page[Execution]:
    request = PageRequest(ROWS, position_after())
    wanted = _before(found, until)
    read = partial(page_of_executions, services().database, wanted, request, seconds=PATIENCE_SECONDS)
    return once_a_request("executions", read)


def _excluding(found: ExecutionQueryOfPage) -> Values | None:
    """Return the field of the filter without which most executions match; None if none helps alone."""
    best: Values | None = None
    # The time first: most often it is too short.
    for name, text in sorted(found.given.items(), key=lambda field: field[0] != SINCE)[:MAX_TRIED]:
        wanted = filter_without(found, name, now())
        request = PageRequest(MANY_NEWER)
        listed = page_of_executions(services().database, wanted, request, chunk=TRIED_ROWS, seconds=0)
        count = len(listed.items)
        if count > (best["count"] if best else 0):
            best = {"name": name, "text": text, "count": count, "is_more": listed.next is not None}
    return best


def columns() -> str:
    """Return the preset of columns."""
    return query().choice("columns", PRESETS, "fault")


def _before(found: ExecutionQueryOfPage, until: datetime) -> Any:
    given = found.wanted.created_before
    return replace(found.wanted, created_before=until if given is None else min(given, until))


def _newer(found: ExecutionQueryOfPage, until: datetime) -> int:
    """Count executions that were created since the page was made, up to a bound."""
    if position_after() is not None or found.wanted.created_before is not None:
        return 0
    wanted = replace(found.wanted, created_after=until - MICROSECOND)
    return len(page_of_executions(services().database, wanted, PageRequest(MANY_NEWER)).items)


def _reasons(executions: Any) -> dict[str, Explanation]:
    waiting = [each.execution_id for each in executions if each.status in CANCELLABLE]
    if not waiting:
        return {}
    reclaim_every = timedelta(seconds=services().settings.reclaim_interval_seconds)
    reasons, seconds = services().reasons, SECONDS_OF_REASONS
    found = explain_several(services().database, waiting, reclaim_every=reclaim_every, reasons=reasons, seconds=seconds)
    return dict(found)


def _row(execution: Execution, job: Job | None, why: Explanation | None) -> Values:
    error = execution.last_error or {}
    began = execution.started_at
    late = None if began is None else (began - execution.run_at) / timedelta(milliseconds=1)
    return {
        "execution": execution,
        "address": to("execution", execution_id=execution.execution_id),
        "job": job,
        "why": why,
        "error": str(error.get("type", "")),
        "message": str(error.get("message", "")),
        "uncertain": str(error.get("may_have_been_delivered", False)).lower() == "true",
        "late_ms": late if execution.status not in CANCELLABLE else None,
    }
