"""Pause or resume the schedules of a filter: a preview, and the form that starts the bulk operation."""

from typing import Any

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import to
from app.console.pages.bulk_form import loaded
from app.console.pages.schedule_filter import given_filter, schedule_filter
from app.features.bulk_jobs.api import preview_in
from app.features.bulk_jobs.schemas import NewBulkOperationSchema
from app.features.bulk_jobs.store import OF_SCHEDULES
from app.kernel.formats import compact_json
from app.web.services import services

page = ConsolePage(
    "schedules_bulk",
    "/schedules/bulk",
    "Pause schedules",
    reads="POST /bulk-operations/preview",
    under="schedules",
)


@page.show
def show() -> Values:
    """Preview the operation of the address."""
    verb = query().choice("action", [each.value for each in OF_SCHEDULES], "pause")
    found = schedule_filter(query())
    values = ((name, getattr(found, name)) for name in ("endpoint", "name", "labels"))
    wanted: dict[str, Any] = {name: value for name, value in values if value is not None}
    body = loaded(NewBulkOperationSchema(), {"action": verb, "wanted": wanted, "all": not wanted})
    return {
        "title": f"{verb.capitalize()} schedules",
        "verb": verb,
        "given": given_filter(),
        "wanted": compact_json(wanted),
        "seen": preview_in(services().creator, body),
        "schedules": to("schedules", **given_filter()),
    }
