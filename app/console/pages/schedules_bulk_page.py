"""Pause or resume the schedules of a filter: a preview, and the form that starts the bulk operation."""

from typing import Any

from flask import request

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import to
from app.console.pages.address_filter import refuse_misspelt
from app.console.pages.bulk_form import MAX_WANTED, RATE, loaded, rate_of
from app.console.pages.schedule_filter import given_filter, labels_of
from app.features.bulk_jobs.api import preview_in
from app.features.bulk_jobs.schemas import NewBulkOperationSchema
from app.features.bulk_jobs.store import FILTERS_OF_SCHEDULES, OF_SCHEDULES
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
    refuse_misspelt(FILTERS_OF_SCHEDULES, "action", "rate")
    names = sorted(request.args.keys() & {*FILTERS_OF_SCHEDULES})
    given = {name: query().text(name, longest=MAX_WANTED) for name in names}
    wanted: dict[str, Any] = given | ({"labels": labels_of(given["labels"])} if "labels" in given else {})
    body = loaded(NewBulkOperationSchema(), {"action": verb, "wanted": wanted, "all": not wanted})
    return {
        "title": f"{verb.capitalize()} schedules",
        "verb": verb,
        "given": given,
        "wanted": compact_json(wanted),
        "rate": rate_of(query(), RATE),
        "seen": preview_in(services().creator, body),
        "schedules": to("schedules", **given_filter()),
    }
