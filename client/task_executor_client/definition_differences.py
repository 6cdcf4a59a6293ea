"""Differences between a declared and a stored endpoint, in a canonical form of their fields."""

import re
from collections.abc import Mapping
from typing import Any

from .defaults import DEFAULTS

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SPECS = {
    "HTTP": "HttpSpec",
    "KAFKA": "KafkaSpec",
    "REDIS_STREAM": "RedisStreamSpec",
    "NOTIFICATION": "NotificationSpec",
    "WORKFLOW": "WorkflowSpec",
    "ACTOR": "ActorSpec",
}


def differing(body: Mapping[str, Any], stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields that differ between a declared and a stored endpoint.

    Args:
        body: Declared fields; missing fields with a default have the default, other missing fields are not compared.
        stored: Endpoint of the service.

    Returns:
        Names of the differing fields, sorted. Durations are equal if their milliseconds are.
    """
    usual: dict[str, Any] = {"config": None, "callbacks": None, "keep_response": "always", "retry_policy": {}}
    wanted = usual | {name: value for name, value in body.items() if value is not None}
    return tuple(
        name
        for name, value in sorted(wanted.items())
        if not is_same(_meant(name, value, body["type"]), _meant(name, stored.get(name), body["type"]))
    )


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON: Python's `1 == True`, but JSON's 1 is not true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _meant(name: str, value: Any, type_: str) -> Any:
    """Return a field in a canonical form, so that equivalent spellings are equal."""
    match name:
        case "spec":
            return DEFAULTS.get(SPECS[type_], {}) | dict(value)
        case "retry_policy":
            return DEFAULTS.get("RetryPolicySpec", {}) | dict(value or {})
        case "callbacks":
            return {event: endpoint for event, endpoint in (value or {}).items() if endpoint is not None}
        case "result_retention":
            return milliseconds(value)
    return value


def milliseconds(duration: Any) -> Any:
    """Return a duration in milliseconds, so that `24h` equals `1d`; other values unchanged."""
    match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else duration
