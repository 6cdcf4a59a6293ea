"""/queues."""

from typing import Any

from marshmallow import Schema, fields

from app.features.queues import pauses, store
from app.features.queues.store import Queue
from app.kernel.audit.change import AuditedChange
from app.kernel.described_fields import answered
from app.kernel.errors import QueueNotFoundError
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services, wake

resource = Resource("queues", "Queues of waiting executions.")


class QueueSchema(Schema):
    """A queue."""

    queue = fields.String(**answered(example="http"))
    workers = fields.Integer(**answered("live worker processes of the queue", example=2))
    due = fields.Integer(**answered(f"executions; up to {store.MAX_DUE:,} are counted", example=412))
    oldest_due_at = Instant(**answered("`run_at` of the oldest execution", null=True))
    oldest_due_seconds = fields.Float(**answered(null=True, example=12.5))
    paused_at = Instant(**answered("start of the pause", null=True, example=None))
    paused_by = fields.String(**answered("name of the API key, or cli:USER", null=True, example=None))


@resource.route("GET", "/queues", query=PageQuery, returns=page_schema(QueueSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List queues: with workers, waiting executions or a pause, and the queues of endpoints and routes."""
    page = store.page(services().database, services().shards, page_request(query))
    return page_answer(page, query)


@resource.route("POST", "/queues/<queue>/pause", returns=QueueSchema, errors=[QueueNotFoundError])
def pause(queue: str) -> Queue:
    """Pause a queue: nothing is claimed from it until it is resumed. Running deliveries continue.

    New jobs are accepted, and waiting executions keep their order. Pausing a paused queue changes nothing.
    """
    return _set_paused(queue, is_paused=True)


@resource.route("POST", "/queues/<queue>/resume", returns=QueueSchema, errors=[QueueNotFoundError])
def resume(queue: str) -> Queue:
    """Resume a queue: workers claim from it again. Resuming a queue that is not paused changes nothing."""
    found = _set_paused(queue, is_paused=False)
    wake(queue)
    return found


def _set_paused(queue: str, *, is_paused: bool) -> Queue:
    database = services().database
    found = store.get(database, queue, services().shards)
    return found.with_pause(pauses.set_paused(database, queue, AuditedChange(actor()), is_paused=is_paused))
