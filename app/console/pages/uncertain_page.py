"""Uncertain deliveries: sent attempts without an answer."""

from collections import Counter

from flask import request

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import given_values, query
from app.console.http.list_export import exports
from app.console.http.list_pages import UNTIL, address_behind, position_after
from app.console.http.page_rendering import now
from app.console.pages.address_filter import SINCE, beginning
from app.kernel.db.paging import PageRequest
from app.queue.reading.uncertain_attempts import UncertainFilter, page_of_uncertain
from app.web.services import services

ROWS = 100
FILTERS = ("endpoint", "error_type", "worker_id", SINCE)

page = ConsolePage("uncertain", "/uncertain", "Uncertain deliveries", reads="GET /attempts", under="executions")


@page.show
def show() -> Values:
    return {"given": dict(request.args.items())}


@page.region("list", live="executions", pinned=True)
def list_() -> Values:
    wanted = uncertain_filter()
    found = page_of_uncertain(services().database, wanted, PageRequest(ROWS, position_after()))
    return {
        "attempts": found.items,
        "by_endpoint": Counter(each.endpoint for each in found.items).most_common(),
        "older": address_behind(found.next),
        "is_filtered": any(name in query() for name in FILTERS),
        "is_bad": SINCE in query() and wanted.created_after is None,
        "exports": exports("uncertain", given_values(FILTERS)),
    }


def uncertain_filter() -> UncertainFilter:
    """Return the filter of the address."""
    return UncertainFilter(
        endpoint=query().text("endpoint") or None,
        error_type=query().text("error_type") or None,
        worker_id=query().text("worker_id") or None,
        created_after=beginning(query().text(SINCE), now()) if SINCE in query() else None,
        created_before=query().instant(UNTIL),
    )
