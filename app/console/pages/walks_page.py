"""Bulk operations and redrives, under way and done, with their progress."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.page_rendering import to
from app.console.views.filter_words import filter_words
from app.features.bulk_jobs.store import BULK_OPERATIONS, OF_SCHEDULES
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.db.paging import PageRequest
from app.queue.bulk.bulk_job import BulkJob
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.web.services import services
from schema.states import BulkAction, BulkJobStatus

ROWS = 30
_VERBS = {
    BulkAction.CANCEL: "cancelled",
    BulkAction.RETRY: "retried",
    BulkAction.RESCHEDULE: "rescheduled",
    BulkAction.ARCHIVE: "archived",
    BulkAction.PAUSE: "paused",
    BulkAction.RESUME: "resumed",
}
_CHANGES = {"pause": BulkJobStatus.PAUSED, "resume": BulkJobStatus.RUNNING, "stop": BulkJobStatus.STOPPED}

page = ConsolePage("walks", "/walks", "Bulk operations and redrives", reads="GET /bulk-operations", under="executions")


@page.region("operations", live="walks")
def operations() -> Values:
    found = BULK_OPERATIONS.page(services().database, PageRequest(ROWS)).items
    return {"rows": [_row(each, "operation") for each in found]}


@page.region("redrives", live="walks", reads="GET /redrives")
def redrives() -> Values:
    found = REDRIVES.page(services().database, PageRequest(ROWS)).items
    return {"rows": [_row(each, "redrive") for each in found]}


def _row(walk: BulkJob, kind: str) -> dict[str, Any]:
    values = asdict(walk)
    return values | {
        "kind": kind,
        "id": values.get("operation_id") or values.get("redrive_id"),
        "done": values.get("changed", values.get("redriven", 0)),
        "verb": _verb_of(values["action"]) if kind == "operation" else "redriven",
        "filter": _words_of(walk.wanted),
        "list": to(_page_of(values.get("action")), **_address_of(walk.wanted)),
    }


def _verb_of(action: BulkAction) -> str:
    """Return the participle; an action that is newer than this page has its own name."""
    return _VERBS.get(action, action.value)


def _page_of(action: BulkAction | None) -> str:
    """Return the page that lists what an action, or a redrive without one, changes."""
    if action in OF_SCHEDULES:
        return "jobs"
    return "letters" if action in (None, BulkAction.ARCHIVE) else "executions"


def _words_of(wanted: Mapping[str, Any]) -> list[str]:
    return [filter_words(name, _text(value)) for name, value in wanted.items()]


def _address_of(wanted: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in wanted.items()}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change(store: BulkJobStore[Any], status: BulkJobStatus, **path: str) -> Done:
    (walk_id,) = path.values()
    changed = store.change(services().database, walk_id, status)
    return Done(f"The {store.noun} is {changed.status.lower()}.")


for _path, _store in (("/bulk-operations/<operation_id>", BULK_OPERATIONS), ("/redrives/<redrive_id>", REDRIVES)):
    for _verb, _status in _CHANGES.items():
        action(f"POST {_path}/{_verb}")(partial(_change, _store, _status))
