"""Descriptions of actors: name, queue, and the options that the service reads."""

from datetime import timedelta
from typing import Any

from dramatiq.broker import Broker

from task_executor_dramatiq.messages import priority_of

COPIED = ("cron", "max_lost", "timezone")


def described(broker: Broker) -> list[dict[str, Any]]:
    """Return the descriptions of the actors of a broker, as a HELLO has them."""
    return [
        {
            "name": actor.actor_name,
            "queue": actor.queue_name,
            "options": {"priority": priority_of(actor.priority), **_read_options(broker, actor)},
        }
        for actor in [*broker.actors.values()]
    ]


def _read_options(broker: Broker, actor: Any) -> dict[str, Any]:
    """Return time limit and bounds of an actor; an actor without a time limit has the limit of the middleware."""
    default = next((each.time_limit for each in broker.middleware if hasattr(each, "time_limit")), None)
    limit = actor.options.get("time_limit", default)
    given: dict[str, Any] = {"time_limit": limit if isinstance(limit, (int, float)) else None}
    if (soft := actor.options.get("soft_time_limit_ms")) is not None:
        given["soft_timeout_ms"] = soft
    if (interval := actor.options.get("interval")) is not None:
        given["interval"] = round(interval.total_seconds() * 1000) if isinstance(interval, timedelta) else interval
    return given | {name: value for name in COPIED if (value := actor.options.get(name)) is not None}
