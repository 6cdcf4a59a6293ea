"""Addresses of a page of the console, plain and with the filters that read most.

The list of the pages has all of them. A page with an unknown part of its path fails until a value for it is given.
"""

import re
from collections.abc import Iterator, Mapping

from app.console.pages import all_pages

_QUERIES = {
    "overview": ("window=24h", "window=30d"),
    "executions": (
        *("status=FAILED", "status=QUEUED,RETRYING", "endpoint={endpoint}", "endpoint=nobody", "job_id={job_id}"),
        *(
            "since=24h&labels=team=nobody",
            "since=7d&name=nobody",
            "since=7d&error_type=nobody",
            "since=7d&uncertain=true",
        ),
        *("late_over=5s", "worker_id=nobody", "idempotency_key_prefix=nobody", "limit_key=nobody", "queue=nobody"),
        *("columns=punctuality", "columns=traffic", "scheduled_before=2020-01-01T00:00:00Z"),
    ),
    "bulk": ("action=retry&status=FAILED", "action=cancel&labels=team=nobody", "action=cancel&endpoint={endpoint}"),
    "uncertain": ("since=30d", "endpoint={endpoint}", "error_type=nobody"),
    "jobs": ("status=RETIRED", "trigger=DELAYED", "endpoint={endpoint}", "name=nobody", "labels=team=nobody"),
    "schedules": ("sort=starts", "endpoint={endpoint}", "zone=Europe/Berlin"),
    "schedules_bulk": ("action=resume",),
    "spread": ("date=2099-01-01&minute=120",),
    "history": ("last=24h", "last=30d", "endpoint={endpoint}&last=30d"),
    "deliveries": ("from=2020-01-01T00:00:00Z", "from=2020-01-01T00:00:00Z&endpoint={endpoint}"),
    "letters": (
        *("state=resolved", "endpoint={endpoint}", "error_type=nobody", "labels=team=nobody"),
        *("group=0000000000000000", "since=30d"),
    ),
    "redrive": ("endpoint={endpoint}", "labels=team=nobody", "group=0000000000000000"),
    "archive": ("group=0000000000000000",),
    "endpoints": ("sort=failed",),
    "catalogue": ("kind=secrets", "kind=payload-specs"),
    "routes": ("endpoint={endpoint}",),
    "search": ("q=report-1", "q=nobody", "q={execution_id}", "q=team=nobody"),
}
"""Filters by page: common, rare and absent values. A page of a feature has its own examples."""


def addresses(places: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the addresses of a page; `places` are the parts of paths by name, or by page and name as `job.job_id`.

    Raises KeyError for a part without a value.
    """

    def place(part: re.Match[str]) -> str:
        return places.get(f"{name}.{part[1]}") or places[part[1]]

    page = next(page for page in all_pages() if page.name == name)
    path = "/console" + re.sub(r"<(?:\w+:)?(\w+)>", place, page.path)
    for query in ("", *_QUERIES.get(name, page.examples)):
        yield f"{path}?{query.format_map(places)}" if query else path
