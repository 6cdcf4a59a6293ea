"""Reach of closing breakers: their endpoints, and the executions that wait for these."""

from collections.abc import Collection, Mapping
from typing import Any

from app.console.views.reach import reach_of_breaker
from app.features.limits.store import waiting_of_endpoints
from app.web.services import services

MAX_REACHED = 16  # endpoints whose waiting executions are counted, in one statement


def reach_of_breakers(broken: Collection[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Count what waits for breakers that are not closed; returns the reach in words by the target of the breaker."""
    names = sorted({name for each in broken for name in each["endpoints"]})[:MAX_REACHED]
    found = waiting_of_endpoints(services().database, names) if names else {}
    waiting = dict.fromkeys(names, 0) | found
    return {each["target"]: reach_of_breaker(each["endpoints"], waiting) for each in broken}
