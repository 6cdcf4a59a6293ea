"""Options of actors that a process registers, as the spec of an endpoint."""

from collections.abc import Mapping
from typing import Any

from app.catalog.specs.actor import timeout_of
from app.kernel.errors import InvalidRequestError, UnprocessableError
from app.kernel.formats import show_duration
from app.schedule.interval import parse_every

DEFAULT_TIME_LIMIT_MS = 600_000
OPTIONS = ("max_lost", "soft_timeout_ms", "cron", "timezone", "interval")
SCHEDULES = {"cron", "interval"}


def spec_of(actor: str, queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of an actor with Dramatiq's option `time_limit`, in milliseconds, and the options of OPTIONS."""
    timeout = timeout_of(options.get("time_limit", DEFAULT_TIME_LIMIT_MS))
    spec: dict[str, Any] = {"actor": actor, "queue": queue, "timeout_ms": timeout}
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
