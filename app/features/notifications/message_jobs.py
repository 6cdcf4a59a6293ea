"""Jobs of messages: one for each channel of a rule, inserted in the transaction that closes the group."""

import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from app.features.notifications.grouping import EventGroup
from app.features.notifications.message import message_of, sample_message
from app.features.notifications.rules import Rule
from app.kernel import ids
from app.kernel.tracing.context import TraceContext
from app.queue.jobs import job_insertion
from app.queue.jobs.endpoint_cache import CachedEndpoint, read_targets
from app.queue.jobs.job_model import NewJob
from schema.states import Followed, Trigger

log = logging.getLogger(__name__)


class ChannelChangedError(Exception):
    """An endpoint changed between its read and the insertion of its job."""


def insert_jobs(
    connection: Connection, rule: Rule, group_id: str, group: EventGroup
) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Insert a job for each channel; return the job or fault of each channel, and the queues of the jobs."""
    message = message_of(rule.name, group)
    targets = read_targets(connection, set(rule.channels))
    messages, made = list[dict[str, Any]](), dict[str, Mapping[str, Any]]()
    for channel in dict.fromkeys(rule.channels):
        fault = _fault(targets.get(channel), message)
        job_id = None
        if fault is None:
            params = _params(targets[channel], rule, group_id, message)
            job_id = params["job_id"]
            made[job_id] = params
        else:
            log.warning("could not send a message of notification rule %s to %s: %s", rule.name, channel, fault)
        messages.append({"channel": channel, "job_id": job_id, "fault": fault})
    if not made:
        return messages, frozenset()
    rows = connection.execute(job_insertion.ONE_SHOTS, job_insertion.params_of_one_shots(list(made.values()))).all()
    if len(rows) < len(made):
        raise ChannelChangedError
    return messages, frozenset(row.execution_queue for row in rows)


def _params(target: CachedEndpoint, rule: Rule, group_id: str, message: dict[str, Any]) -> dict[str, Any]:
    new = NewJob(
        endpoint=target.name,
        trigger=Trigger.IMMEDIATE,
        input=message,
        name=f"notification of {rule.name}",
        idempotency_key=f"notification:{group_id}",
    )
    params = job_insertion.params_of(new, target, ids.job_id(), shards=1)
    followed = (params["followed"] or 0) | Followed.NOTIFICATION
    return params | {"followed": int(followed), "look_ahead_ms": 0}


def _fault(target: CachedEndpoint | None, message: Mapping[str, Any]) -> str | None:
    if target is None:
        return "the endpoint no longer exists"
    if not (found := target.faults(message)):
        return None
    return f"its payload spec rejects the message: {found[0]['pointer'] or '/'}: {found[0]['message']}"


def trial_job(endpoint: str, key: str | None = None, trace: TraceContext | None = None) -> NewJob:
    """Return a job that sends a test message; the same key creates one job only."""
    return NewJob(
        endpoint=endpoint,
        trigger=Trigger.IMMEDIATE,
        input=sample_message(endpoint, datetime.now(UTC)),
        idempotency_key=f"test:{key or secrets.token_hex(16)}",
        trace=trace,
    )
