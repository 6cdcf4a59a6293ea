"""Filter of executions in an address of the console: the names of the API, and `since` for the last hours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import request
from marshmallow import ValidationError

from app.kernel.formats import duration_ms, marshmallow_faults
from app.queue.reading.execution_filter import ExecutionFilter
from app.web.executions.execution_schemas import ExecutionQuery

SINCE = "since"
LONGEST = timedelta(days=3660)
NAMES = (
    *("status", "endpoint", "error_type", "labels", "name", "idempotency_key", "idempotency_key_prefix", "job_id"),
    *("queue", "limit_key", "worker_id", "uncertain", "late_over", "created_after", "created_before"),
    *("scheduled_after", "scheduled_before"),
)
"""Filters of the address, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class ExecutionQueryOfPage:
    """Filter of a page: as given, as a filter, and the faults by field."""

    given: Mapping[str, str]
    wanted: ExecutionFilter
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def narrows(self) -> bool:
        return bool(self.given)


def filter_of_address(now: datetime) -> ExecutionQueryOfPage:
    """Read the filter of the current address; a malformed value is a fault, and filters nothing."""
    given = {name: text for name in (*NAMES, SINCE) if (text := request.args.get(name, "").strip())}
    values = {name: text for name, text in given.items() if name != SINCE}
    faults = dict[str, str]()
    try:
        loaded: dict[str, Any] = ExecutionQuery(exclude=("limit", "cursor", "workflow")).load(values)
    except ValidationError as error:
        faults = {path[0]: message for path, message in marshmallow_faults(error.messages)}
        return ExecutionQueryOfPage(given, ExecutionFilter(), faults)
    if SINCE in given:
        after = created_after(given[SINCE], now)
        if after is None:
            return ExecutionQueryOfPage(given, ExecutionFilter(), {SINCE: "Must be a duration, such as 2h or 7d."})
        loaded["created_after"] = after
    return ExecutionQueryOfPage(given, ExecutionFilter(**loaded))


def created_after(since: str, now: datetime) -> datetime | None:
    """Return the beginning of a duration that ends now, such as `2h`; None if it is malformed."""
    milliseconds = duration_ms(since)
    if milliseconds is None or milliseconds > LONGEST / timedelta(milliseconds=1):
        return None
    return now - timedelta(milliseconds=milliseconds)


def wanted_of(found: ExecutionQueryOfPage) -> dict[str, Any]:
    """Return the filter as the body of a bulk operation has it."""
    wanted: dict[str, Any] = {name: text for name, text in found.given.items() if name != SINCE}
    if "labels" in wanted:
        wanted["labels"] = dict(found.wanted.labels or {})
    if "uncertain" in wanted:
        wanted["uncertain"] = found.wanted.uncertain
    if SINCE in found.given and found.wanted.created_after is not None:
        wanted["created_after"] = found.wanted.created_after.isoformat()
    return wanted
