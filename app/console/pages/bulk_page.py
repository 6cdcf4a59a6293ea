"""Bulk operations: preview of a filter, its start, and the list of the operations that run or ran."""

from collections.abc import Mapping
from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import Fields, form, query
from app.console.http.page_rendering import now, to
from app.console.pages import walks_page
from app.console.pages.address_filter import IS_CHOICE, SINCE, refuse_misspelt
from app.console.pages.bulk_form import MAX_WANTED, RATE, check_typed, faults_of, loaded, rate_of
from app.console.pages.execution_query import NAMES, filter_of_address, wanted_of
from app.console.pages.schedule_filter import FILTERS as FILTERS_OF_JOBS
from app.features.bulk_jobs.api import begin_in, preview_in
from app.features.bulk_jobs.schemas import LONGEST_SECONDS, NewBulkOperationSchema
from app.features.bulk_jobs.store import AFFECTS, BULK_OPERATIONS, OF_SCHEDULES, BulkOperation
from app.kernel.db.paging import PageRequest
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import compact_json
from app.queue.executions.execution_cancellation import IfRunning
from app.web.http.conditions import actor
from app.web.services import services
from schema.states import BulkAction, ExecutionStatus

_LEAST = {"delay_seconds": -LONGEST_SECONDS, "spread_seconds": 1}
_VERBS = {
    BulkAction.CANCEL: "Cancel executions",
    BulkAction.RETRY: "Retry failed executions",
    BulkAction.RESCHEDULE: "Reschedule waiting executions",
}
_DONE = {
    BulkAction.CANCEL: "cancelled",
    BulkAction.RETRY: "retried",
    BulkAction.RESCHEDULE: "rescheduled",
    BulkAction.ARCHIVE: "archived",
    BulkAction.PAUSE: "paused",
    BulkAction.RESUME: "resumed",
}
_RUNNING = {"": "leave alone", IfRunning.REQUEST.value: "end after this attempt", IfRunning.ABORT.value: "abort"}
_NOTHING: Values = {"count": 0, "is_complete": True, "sample": []}

page = ConsolePage(
    "bulk", "/executions/bulk", "Bulk operation", reads="POST /bulk-operations/preview", under="executions"
)


@page.show
def show() -> Values:
    """Preview the operation of the address; the form starts it."""
    refuse_misspelt((*NAMES, SINCE), *_LEAST, IS_CHOICE, "action", "if_running", "rate")
    verb = BulkAction(query().choice("action", [each.value for each in _VERBS], BulkAction.RETRY.value))
    found = filter_of_address(now())
    given = _given(query())
    states = _fitting(verb, found.given, given.get("if_running", ""))
    wanted = wanted_of(found) | ({"status": ",".join(states)} if states else {})
    values = {
        "action": verb.value,
        "wanted": wanted,
        "all": not (wanted.keys() - {"status"}),
        **({"delay_seconds": 0} if verb is BulkAction.RESCHEDULE and "spread_seconds" not in given else {}),
        **given,
    }
    shown: Values = {"title": _VERBS[verb], "verb": verb.value, "given": found.given, "values": values, "faults": {}}
    shown |= {"seen": None, "wanted": compact_json(wanted), "rate": rate_of(query(), RATE)}
    shown |= {"back": to("executions", **found.given), "running": _RUNNING, "if_running": given.get("if_running", "")}
    if found.faults:
        return shown | {"faults": dict(found.faults)}
    if "status" in found.given and not states:
        return shown | {"seen": _NOTHING}
    try:
        body = loaded(NewBulkOperationSchema(), values)
    except InvalidRequestError as error:
        return shown | {"faults": faults_of(error)}
    return shown | {"seen": preview_in(services().creator, body)}


@action("POST /bulk-operations")
def begin() -> Done:
    """Begin the operation of a form: of a filter that its preview has shown."""
    fields = form()
    wanted = fields.json_object("wanted", longest=MAX_WANTED)
    values: dict[str, Any] = {"action": fields.text("action"), "wanted": wanted, **_given(fields)}
    if "note" in fields:
        values["note"] = fields.text("note", longest=1000)
    values |= {"rate": rate_of(fields, RATE), "all": not (wanted.keys() - {"status"})}
    check_typed()
    begun = begin_in(services().database, loaded(NewBulkOperationSchema(), values), actor().name)
    return Done(f"The operation {begun.operation_id} has begun.", to("walks"))


@walks_page.page.region("operations", live="walks", reads="GET /bulk-operations")
def operations() -> Values:
    found = BULK_OPERATIONS.page(services().database, PageRequest(walks_page.ROWS)).items
    return {"rows": list(map(_operation_row, found))}


walks_page.add_changes("/bulk-operations/<operation_id>", BULK_OPERATIONS)


def _operation_row(each: BulkOperation) -> dict[str, Any]:
    # An action that is newer than this page has its own name.
    verb = _DONE.get(each.action, each.action.value)
    listed_on, begun_on = _pages_of(each)
    return walks_page.walk_row(
        each, each.operation_id, each.changed, verb=verb, listed_on=listed_on, begun_on=begun_on, given=_again(each)
    )


def _given(fields: Fields) -> dict[str, Any]:
    """Return the parameters of the action; raises InvalidRequestError."""
    given: dict[str, Any] = {"if_running": fields.text("if_running")} if "if_running" in fields else {}
    return given | {
        name: fields.whole(name, 0, least=least, most=LONGEST_SECONDS)
        for name, least in _LEAST.items()
        if name in fields
    }


def _again(each: BulkOperation) -> dict[str, str] | None:
    """Return the parameters for a preview of the same again; None for an instant, which the page has no field for."""
    if each.action is BulkAction.ARCHIVE:
        return {}
    if "run_at" in each.parameters:
        return None
    return {"action": each.action.value, **{name: str(value) for name, value in each.parameters.items()}}


def _pages_of(each: BulkOperation) -> tuple[str, str]:
    """Return the page that lists what an operation changes, empty without one, and the page that begins it."""
    if each.action in OF_SCHEDULES:
        return "jobs" if each.wanted.keys() <= {*FILTERS_OF_JOBS} else "", "schedules_bulk"
    return ("letters", "archive") if each.action is BulkAction.ARCHIVE else ("executions", "bulk")


def _fitting(verb: BulkAction, given: Mapping[str, str], if_running: str) -> list[str]:
    """Return the states of the filter that the action can change; a cancellation leaves running ones by default."""
    affected = {*AFFECTS[verb]} - ({ExecutionStatus.RUNNING} if not if_running else set())
    fitting = [each for each in given.get("status", "").split(",") if each in affected]
    if verb is BulkAction.RETRY and "execution_id" in given:
        return fitting or [*AFFECTS[verb]]  # a ticked CANCELLED execution is meant
    return fitting
