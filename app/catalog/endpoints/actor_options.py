"""Options of actors that a process registers, as the spec of an endpoint."""

from collections.abc import Mapping
from typing import Any

from app.kernel.errors import InvalidRequestError, UnprocessableError
from app.kernel.formats import show_duration
from app.schedule.interval import parse_every
from schema.inline_bounds import MAX_TIMEOUT_MS

# Dramatiq ends an actor at its time limit; the worker waits a little longer for the outcome.
OUTCOME_MS = 30_000
DEFAULT_TIME_LIMIT_MS = 600_000
OPTIONS = ("max_lost", "soft_timeout_ms", "cron", "timezone", "interval")
SCHEDULES = {"cron", "interval"}


def spec_of(actor: str, queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of an actor with Dramatiq's option `time_limit`, in milliseconds, and the options of OPTIONS."""
    limit = options.get("time_limit", DEFAULT_TIME_LIMIT_MS)
    timeout = MAX_TIMEOUT_MS if not _is_number(limit) else min(int(limit) + OUTCOME_MS, MAX_TIMEOUT_MS)
    spec: dict[str, Any] = {"actor": actor, "queue": queue, "timeout_ms": max(1, timeout)}
    spec |= {name: options[name] for name in OPTIONS if options.get(name) is not None}
    return spec | {"interval": show_duration(_interval_of(spec))} if "interval" in spec else spec


def _interval_of(spec: Mapping[str, Any]) -> int:
    """Return the milliseconds of an interval; raises UnprocessableError for another value, or beside `cron`."""
    if "cron" in spec:
        raise UnprocessableError("The actor has `cron` and `interval`. Give it one of them.")
    try:
        return parse_every(spec["interval"])
    except InvalidRequestError as error:
        fault = error.details[0]["message"] if error.details else error.message
        raise UnprocessableError(f"The option `interval` is {spec['interval']!r:.50}. {fault}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value < MAX_TIMEOUT_MS
