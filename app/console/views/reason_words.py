"""Reasons of a wait in a few words for a row of a list, and the way out of it; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.catalog.crypto import VARIABLE
from app.console.views import words
from app.queue.reading.waiting_reasons import Explanation

_HELD = {
    "BEHIND_OTHERS": "in line",
    "ENDPOINT_PAUSED": "its endpoint is paused",
    "JOB_PAUSED": "its job is paused",
    "NEXT_IN_QUEUE": "next of its endpoint",
    "NO_PROCESS": "no process offers its actor",
    "NO_WORKER": "no worker serves its queue",
    "QUEUE_PAUSED": "its queue is paused",
    "RATE_LIMITED": "rate limit",
    "SECRET_UNREADABLE": "its worker lacks an encryption key",
    "WAITING_FOR_RUN_AT": "due",
    "WAITING_FOR_SCHEDULER": "no scheduler has queued it",
}
_IN_LINE = frozenset({"BEHIND_OTHERS", "CONCURRENCY_LIMITED", "RATE_LIMITED"})


def reason_of(why: Explanation, now: datetime) -> str:
    """Write the reason of a wait, such as `breaker open, in 41 s` or `in line, behind 811`."""
    parts = [_held(why)]
    ahead = why.details.get("ahead", 0)
    if ahead and why.reason in _IN_LINE:
        parts.append(f"behind {words.number(ahead, or_more=not why.details.get('ahead_is_exact'))}")
    if why.until is not None and why.until > now:
        parts.append(words.ago(why.until, now))
    return ", ".join(parts)


def _held(why: Explanation) -> str:
    details = why.details
    if why.reason == "RETRYING_AFTER_ERROR":
        return f"retry after {_lower(details.get('last_error', {}).get('type', 'an error'))}"
    if why.reason == "BREAKER_OPEN":
        return f"breaker {_lower(details.get('breaker', 'open'))}"
    if why.reason == "CONCURRENCY_LIMITED":
        return f"limit of {details.get('max_in_flight')} in flight"
    return _HELD.get(why.reason, _lower(why.reason))


def _lower(code: object) -> str:
    return str(code).replace("_", " ").lower()


@dataclass(frozen=True, slots=True)
class WayOut:
    """The way out of a wait: words, and the operation that takes it, with the parts of its path."""

    words: str
    operation: str = ""
    label: str = ""
    path: Mapping[str, str] = field(default_factory=dict)


def way_out_of(why: Explanation, *, job_id: str, endpoint: str) -> WayOut | None:
    """Return the way out of the wait of an execution; None if only time ends it, or nothing is wrong."""
    queue, target = str(why.details.get("queue")), str(why.details.get("target"))
    ways = {
        "JOB_PAUSED": WayOut(
            "It starts once its job is resumed.", "POST /jobs/<job_id>/resume", "Resume the job", {"job_id": job_id}
        ),
        "ENDPOINT_PAUSED": WayOut(
            "It starts once its endpoint is resumed.",
            "POST /endpoints/<name>/resume",
            "Resume the endpoint",
            {"name": endpoint},
        ),
        "QUEUE_PAUSED": WayOut(
            "It starts once its queue is resumed.", "POST /queues/<queue>/resume", "Resume the queue", {"queue": queue}
        ),
        "BREAKER_OPEN": WayOut(
            "A probe closes the breaker by itself once the target answers.",
            "POST /breakers/<target>/close",
            "Close the breaker now",
            {"target": target},
        ),
        "NO_PROCESS": WayOut("Start a process with the actor: dramatiq and the name of its module."),
        "NO_WORKER": WayOut(f"Start a worker for the queue: dramatiq actors -Q {queue}"),
        "SECRET_UNREADABLE": WayOut(f"Give the worker every key in use: {VARIABLE}=first,second"),
        "WAITING_FOR_SCHEDULER": WayOut("Start a scheduler: python -m app.scheduler"),
        "CONCURRENCY_LIMITED": WayOut(f"Raise the limit of the endpoint {endpoint}."),
        "RATE_LIMITED": WayOut(f"Raise the rate of the endpoint {endpoint}."),
    }
    return ways.get(why.reason)
