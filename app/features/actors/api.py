"""/actors, and the actors at a worker."""

from typing import Any

from marshmallow import Schema, fields

from app.features.actors import store
from app.features.actors.store import MAX_LISTED, MAX_SHOWN, ListedActor
from app.kernel.described_fields import answered, described
from app.kernel.errors import ActorNotFoundError, WorkerNotFoundError
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("actors", "Actors of your own processes, and the processes that are connected to workers.")

_SEEN = {"description": "`null` if no process has offered it for a day; now while a process offers it"}
_REFUSALS = {"description": "connected processes that have it, but may not run it, bounded like `processes`"}
_PROCESSES = {"description": f"the newest {MAX_LISTED} of a list, the newest {MAX_SHOWN} of one actor"}


class OfferSchema(Schema):
    """A process that offers an actor."""

    worker_id = fields.String(**answered("the worker that it is connected to"))
    session_id = fields.String(**answered("of the process, new at each start"))
    host = fields.String(**answered(example="app-1"))
    pid = fields.Integer(**answered(null=True, example=4711))
    threads = fields.Integer(**answered(example=8))
    connected_at = Instant(required=True)


class RefusalSchema(Schema):
    """A process that has an actor, but may not run it."""

    worker_id = fields.String(**answered("the worker that it is connected to"))
    session_id = fields.String(**answered("of the process, new at each start"))
    host = fields.String(**answered(example="app-1"))
    pid = fields.Integer(**answered(null=True, example=4711))
    reason = fields.String(**answered("such as a queue that is closed to its API key"))


class ActorSchema(Schema):
    """An actor, its endpoint and its options."""

    actor = fields.String(**answered("its name", example="send_mail"))
    endpoint = fields.String(**answered(example="send-mail"))
    queue = fields.String(**answered("Dramatiq queue", example="default"))
    priority = fields.Integer(**answered(example=128))
    timeout_ms = fields.Integer(**answered(example=630_000))
    soft_timeout_ms = fields.Integer(required=True, allow_none=True)
    max_lost = fields.Integer(**answered(example=3))
    cron = fields.String(**answered(null=True, example="0 9 * * *"))
    timezone = fields.String(**answered(null=True, example="Europe/Berlin"))
    interval = fields.String(**answered(null=True, example="10m"))
    registered_at = Instant(required=True)
    process_count = fields.Integer(**answered("processes that offer it now"))
    processes = fields.List(fields.Nested(OfferSchema), required=True, metadata=_PROCESSES)
    refusals = fields.List(fields.Nested(RefusalSchema), required=True, metadata=_REFUSALS)
    last_seen_at = Instant(required=True, allow_none=True, metadata=_SEEN)


class ActorQuery(PageQuery):
    """Filters of the list."""

    is_offered = fields.Boolean(**described("true: a connected process offers it; false: none does"))


@resource.route("GET", "/actors", query=ActorQuery, returns=page_schema(ActorSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List actors, last registered first, each with the processes that offer it."""
    page = store.page_of_actors(services().database, query.get("is_offered"), page_request(query))
    return page_answer(page, query)


@resource.route("GET", "/actors/<name>", returns=ActorSchema, errors=[ActorNotFoundError])
def get(name: str) -> ListedActor:
    """Get an actor by its name, and the processes that offer it."""
    return store.get_actor(services().database, name)


@resource.route(
    "GET",
    "/workers/<worker_id>/actors",
    query=PageQuery,
    returns=page_schema(ActorSchema),
    errors=[WorkerNotFoundError],
)
def list_at_worker(query: dict[str, Any], worker_id: str) -> dict[str, Any]:
    """List the actors that processes connected to a worker offer, each with these processes."""
    return page_answer(store.page_of_worker(services().database, worker_id, page_request(query)), query)
