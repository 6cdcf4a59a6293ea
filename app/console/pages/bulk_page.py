"""Bulk operations: preview of a filter, its start, and the operations and redrives that run or ran."""

from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.page_rendering import now, to
from app.console.pages.bulk_form import MAX_WANTED, check_typed, faults_of, loaded
from app.console.pages.execution_query import filter_of_address, wanted_of
from app.features.bulk_jobs.api import begin_in, preview_in
from app.features.bulk_jobs.schemas import NewBulkOperationSchema
from app.features.bulk_jobs.store import AFFECTS
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import compact_json
from app.queue.executions.execution_cancellation import IfRunning
from app.web.http.conditions import actor
from app.web.services import services
from schema.states import BulkAction

_OF_ACTION = ("if_running", "delay_seconds", "spread_seconds")
_VERBS = {
    BulkAction.CANCEL: "Cancel waiting executions",
    BulkAction.RETRY: "Retry failed executions",
    BulkAction.RESCHEDULE: "Reschedule waiting executions",
}

page = ConsolePage(
    "bulk", "/executions/bulk", "Bulk operation", reads="POST /bulk-operations/preview", under="executions"
)


@page.show
def show() -> Values:
    """Preview the operation of the address; the form starts it."""
    verb = BulkAction(query().choice("action", [each.value for each in _VERBS], BulkAction.RETRY.value))
    found = filter_of_address(now())
    given = {name: query().text(name) for name in _OF_ACTION if name in query()}
    wanted = _fitting(verb, wanted_of(found))
    values = {
        "action": verb.value,
        "wanted": wanted,
        "all": not (wanted.keys() - {"status"}),
        **_default(verb),
        **given,
    }
    shown: Values = {"title": _VERBS[verb], "verb": verb.value, "given": found.given, "values": values, "faults": {}}
    shown |= {"seen": None, "wanted": compact_json(wanted)}
    shown |= {"back": to("executions", **found.given), "if_running": [each.value for each in IfRunning]}
    if found.faults:
        return shown | {"faults": dict(found.faults)}
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
    values: dict[str, Any] = {"action": fields.text("action"), "wanted": wanted}
    values |= {name: fields.text(name) for name in _OF_ACTION if name in fields}
    for name in ("delay_seconds", "spread_seconds"):
        if name in values:
            values[name] = fields.whole(name, 0, least=0, most=31_622_400)
    if "note" in fields:
        values["note"] = fields.text("note", longest=1000)
    values |= {"rate": fields.whole("rate", 100, least=1, most=10_000), "all": not (wanted.keys() - {"status"})}
    check_typed()
    begun = begin_in(services().database, loaded(NewBulkOperationSchema(), values), actor().name)
    return Done(f"The operation {begun.operation_id} has begun.", to("walks"))


def _fitting(verb: BulkAction, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the filter with the states that the action can change."""
    states = [each for each in str(wanted.pop("status", "")).split(",") if each]
    fitting = [each for each in states if each in AFFECTS[verb]]
    if verb is BulkAction.RETRY and "execution_id" in wanted:
        fitting = fitting or [*AFFECTS[verb]]  # a ticked CANCELLED execution is meant
    return wanted | ({"status": ",".join(fitting)} if fitting else {})


def _default(verb: BulkAction) -> dict[str, Any]:
    return {"delay_seconds": 0} if verb is BulkAction.RESCHEDULE else {}
