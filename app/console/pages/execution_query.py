"""Filter of executions in an address of the console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.console.pages.address_filter import SINCE, beginning, read_filter
from app.queue.reading.execution_filter import ExecutionFilter
from app.web.executions.execution_schemas import ExecutionQuery

CREATED = ("created_after", "created_before")
NAMES = (
    "execution_id",
    *("status", "endpoint", "error_type", "labels", "name", "idempotency_key", "idempotency_key_prefix", "job_id"),
    *("queue", "limit_key", "worker_id", "uncertain", "late_over", *CREATED),
    *("scheduled_after", "scheduled_before"),
)
"""Filters of the address, in the order in which they are shown."""
_UNUSED = ("limit", "cursor", "workflow")


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
    found = read_filter(ExecutionQuery(exclude=_UNUSED), NAMES, CREATED, now)
    return ExecutionQueryOfPage(found.given, ExecutionFilter(**found.values), found.faults)


def filter_without(found: ExecutionQueryOfPage, name: str, now: datetime) -> ExecutionFilter:
    """Return the filter of a page without one of its fields."""
    left = {each: text for each, text in found.given.items() if each != name}
    since = beginning(left.pop(SINCE, ""), now)
    values = ExecutionQuery(exclude=_UNUSED).load(left)
    return ExecutionFilter(**values | ({CREATED[0]: since} if since is not None else {}))


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
