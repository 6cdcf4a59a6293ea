"""Filter of a list in its address: the names of the API, and `since` for the time until now."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import request
from marshmallow import Schema, ValidationError

from app.console.http.forms import query, refuse
from app.console.http.list_pages import AFTER, UNTIL
from app.console.http.page_rendering import here, now
from app.kernel.formats import duration_ms, marshmallow_faults, rfc3339
from app.kernel.suggestions import remedy

SINCE = "since"
CHOSEN = ("execution_id", "letter_id")
"""Filters by ids, which a form of ticked boxes repeats."""
IS_CHOICE = "chosen"  # field of such a form: without a ticked box it must not stand for all rows
LONGEST = timedelta(days=3660)


@dataclass(frozen=True, slots=True)
class AddressFilter:
    """Filter as it was given, its values as the API loads them, and its faults by field; with faults, no values."""

    given: Mapping[str, str]
    values: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)


def read_filter(schema: Schema, names: Collection[str], period: tuple[str, str], now: datetime) -> AddressFilter:
    """Read the filter of the current address; `since` replaces `period`, the fields of a beginning and an end."""
    given = {name: text for name in (*names, SINCE) if (text := _text(name))}
    if SINCE in given:
        given = {name: text for name, text in given.items() if name not in period}
    if IS_CHOICE in request.args and not given.keys() & {*CHOSEN}:
        chosen = next(name for name in CHOSEN if name in names)
        return AddressFilter({chosen: ""}, {}, {chosen: "Tick at least one row of the list."})
    after = beginning(given[SINCE], now) if SINCE in given else None
    faults = {SINCE: "Must be a duration, such as 2h or 7d."} if SINCE in given and after is None else {}
    values: dict[str, Any] = {}
    try:
        values = schema.load({name: text for name, text in given.items() if name != SINCE})
    except ValidationError as error:
        faults |= {path[0]: message for path, message in marshmallow_faults(error.messages)}
    if faults:
        return AddressFilter(given, {}, faults)
    return AddressFilter(given, values if after is None else values | {period[0]: after})


def refuse_misspelt(filters: Collection[str], *others: str) -> None:
    """Refuse a field of the address that nothing reads, and an empty filter: both would widen a bulk job."""
    known = (*filters, *others)
    for name in sorted(request.args.keys() - {*known}):
        refuse(name, f"Unknown field.{remedy(name, known)}")
    for name in filters:
        if name in request.args and not _text(name):
            refuse(name, "Must have a value.")


def pinned_address(since: str, period: tuple[str, str]) -> str:
    """Return the address of the list with a fixed time in place of `since`; empty for no or a malformed duration."""
    end = query().instant(UNTIL) or now()
    begin = beginning(since, end)
    if begin is None:
        return ""
    times = zip(period, (rfc3339(begin), rfc3339(end)), strict=True)
    return here(**dict(times), **{SINCE: "", UNTIL: "", AFTER: ""})


def _text(name: str) -> str:
    if name in CHOSEN:
        return ",".join(filter(None, map(str.strip, request.args.getlist(name))))
    return request.args.get(name, "").strip()


def beginning(since: str, now: datetime) -> datetime | None:
    """Return the beginning of a duration that ends now, such as `2h`; None if it is malformed."""
    milliseconds = duration_ms(since)
    if milliseconds is None or milliseconds > LONGEST / timedelta(milliseconds=1):
        return None
    return now - timedelta(milliseconds=milliseconds)
