"""Bulk operations and redrives, under way and done, with their progress; `bulk_page` adds the operations."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.page_rendering import to
from app.console.views.filter_words import filter_words
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.kernel.db.paging import PageRequest
from app.queue.bulk.bulk_job import BulkJob
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.web.services import services
from schema.states import BulkJobStatus

ROWS = 30
_CHANGES = {"pause": BulkJobStatus.PAUSED, "resume": BulkJobStatus.RUNNING, "stop": BulkJobStatus.STOPPED}

page = ConsolePage("walks", "/walks", "Bulk operations and redrives", reads="GET /redrives", under="executions")


@page.region("redrives", live="walks")
def redrives() -> Values:
    found = REDRIVES.page(services().database, PageRequest(ROWS)).items
    return {"rows": [_redrive_row(each) for each in found]}


def _redrive_row(each: Redrive) -> dict[str, Any]:
    given = {"trial": str(each.trial or 0), "least": str(each.least or ""), "to_endpoint": each.to_endpoint or ""}
    given = {name: text for name, text in given.items() if text}
    return walk_row(
        each, each.redrive_id, each.redriven, verb="redriven", listed_on="letters", begun_on="redrive", given=given
    )


def walk_row(
    walk: BulkJob,
    walk_id: str,
    done: int,
    *,
    verb: str,
    listed_on: str,
    begun_on: str,
    given: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return the variables of a row: pages list what the walk changes, and preview with `given` the same again.

    An empty `listed_on` is for a list without these filters, None as `given` for a preview without a parameter.
    """
    wanted = {name: _text(value) for name, value in walk.wanted.items()}
    return asdict(walk) | {
        "id": walk_id,
        "done": done,
        "verb": verb,
        "filter": [filter_words(name, text) for name, text in wanted.items()],
        "list": to(listed_on, **wanted) if listed_on else "",
        "again": "" if given is None or not _is_kept(wanted) else to(begun_on, **given, rate=walk.rate, **wanted),
    }


def _is_kept(wanted: Mapping[str, str]) -> bool:
    """Return whether an address keeps each filter: pages strip values, and leave out empty ones."""
    return all(text and text == text.strip() for text in wanted.values())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def add_changes(path: str, store: BulkJobStore[Any]) -> None:
    """Register the actions that pause, resume and stop the walks of a store."""
    for verb, status in _CHANGES.items():
        action(f"POST {path}/{verb}")(partial(_change, store, status))


def _change(store: BulkJobStore[Any], status: BulkJobStatus, **path: str) -> Done:
    (walk_id,) = path.values()
    changed = store.change(services().database, walk_id, status)
    return Done(f"The {store.noun} is {changed.status.lower()}.")


add_changes("/redrives/<redrive_id>", REDRIVES)
