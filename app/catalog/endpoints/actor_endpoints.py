"""Registration of actors: each actor that a process of the user serves is an endpoint.

A changed option makes a new version, as a request does; equal options change nothing and write nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Row, TextClause
from sqlalchemy.exc import SQLAlchemyError

from app.catalog.endpoints import versions
from app.catalog.endpoints.actor_options import OPTIONS, SCHEDULES, spec_of
from app.catalog.endpoints.endpoint_rows import Endpoint, EndpointDefinition
from app.catalog.specs.actor import MAX_ACTOR_NAME, endpoint_name
from app.kernel.access.api_keys import WORK_PREFIX, Scope
from app.kernel.access.key_ring import Key
from app.kernel.audit import Actor
from app.kernel.audit.change import AuditedChange, Condition, StateTag
from app.kernel.db import Database
from app.kernel.db.retries import is_rows_fault, is_statements_fault
from app.kernel.errors import (
    ConflictError,
    ForbiddenError,
    PreconditionFailedError,
    TaskExecutorError,
    UnavailableError,
    UnprocessableError,
)
from app.kernel.sql import statement
from schema.inline_bounds import MAX_ATTEMPTS, MAX_TIMEOUT_MS
from schema.job_bounds import MAX_PRIORITY
from schema.states import EndpointType

REGISTRAR = Actor(name="actors")
TRIES = 5  # by which a registration makes its change, while requests change the endpoint
MAX_REASON_CHARACTERS = 500  # of a refusal, which goes into the log, a row, and the answer to the process

# The code of the actor decides about its retries. This policy is for attempts whose process was lost.
_POLICY = {"max_attempts": MAX_ATTEMPTS, "backoff": "fixed", "initial_delay_ms": 1000, "max_delay_ms": 1000}

SPECS = statement(
    "actors.specs",
    """
    SELECT name, endpoint_type, spec FROM endpoints
     WHERE name = ANY (CAST(:names AS TEXT[])) AND deleted_at IS NULL
    """,
)

KNOWN = statement(
    "actors.known",
    """
    SELECT e.name, e.endpoint_type, e.spec, EXISTS (
             SELECT 1 FROM jobs AS j WHERE j.endpoint = e.name AND j.trigger_type IN ('CRON', 'INTERVAL')
                AND j.status <> 'RETIRED') AS repeats
      FROM endpoints AS e WHERE e.name = ANY (CAST(:names AS TEXT[])) AND e.deleted_at IS NULL
    """,
)


@dataclass(frozen=True, slots=True)
class RegisteredActors:
    """Endpoints by the name of their actor, and the reasons why other actors have none.

    `closed` names the refused actors of queues that the key may not work.
    """

    endpoints: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)


class Schedules(Protocol):
    """Repeating jobs of actors with the option `cron` or `interval`."""

    def follow(self, endpoint: str) -> None:
        """Let the jobs of an actor agree with its stored spec; raises InvalidCronError, InvalidRequestError."""


def register(
    database: Database,
    actors: Sequence[Mapping[str, Any]],
    key: Key | None = None,
    schedules: Schedules | None = None,
) -> RegisteredActors:
    """Register actors, each with its `name`, `queue`, and `options` of Dramatiq; one refused actor stops no other.

    A process with a key registers no actor of a queue that the key may not work. Raises UnavailableError.
    """
    found = RegisteredActors()
    names, known = _stored(database, KNOWN, actors)
    for each in actors:
        actor = str(each.get("name"))
        try:
            _register(database, names[actor], each, known.get(names[actor]), schedules=schedules, key=key)
        except UnavailableError:
            raise
        except TaskExecutorError as error:
            found.refused[actor[:MAX_ACTOR_NAME]] = error.message[:MAX_REASON_CHARACTERS]
            if isinstance(error, ForbiddenError):
                found.closed.add(actor)
        except (SQLAlchemyError, ValueError) as error:
            if not is_rows_fault(error) or is_statements_fault(error):
                raise
            found.refused[actor] = "its name, its queue or an option has characters that cannot be stored"
        else:
            found.endpoints[actor] = names[actor]
    return found


def closed_actors(database: Database, actors: Sequence[Mapping[str, Any]], key: Key) -> set[str]:
    """Return the actors that `register` would refuse now for the queues of a key; raises UnavailableError."""
    names, known = _stored(database, SPECS, actors)
    closed = set[str]()
    for each in actors:
        actor = str(each.get("name"))
        try:
            _check(names[actor], _spec_of(each), known.get(names[actor]), key)
        except ForbiddenError:
            closed.add(actor)
        except TaskExecutorError:  # refused for another reason
            continue
    return closed


def _stored(
    database: Database, query: TextClause, actors: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, str], dict[str, Row[Any]]]:
    """Return the endpoint of each actor, and the endpoints that exist."""
    names = {str(each.get("name")): endpoint_name(str(each.get("name"))) for each in actors}
    return names, {row.name: row for row in database.fetch(query, {"names": sorted(set(names.values()))})}


def _register(
    database: Database,
    name: str,
    given: Mapping[str, Any],
    known: Row[Any] | None,
    *,
    schedules: Schedules | None,
    key: Key | None,
) -> None:
    spec = _spec_of(given)
    _check(name, spec, known, key)
    if known is None:
        _create(database, name, spec, _options_of(given), key)
    elif _with_fields_of_requests(before := _spec_in(known), spec) != before:
        _change(database, name, spec, key)
    # After the change, which a concurrent process may have replaced, or a request refused.
    if schedules is not None and (SCHEDULES & spec.keys() or (known is not None and known.repeats)):
        schedules.follow(name)


def _options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    options = given.get("options")
    return options if isinstance(options, dict) else {}


def _spec_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return spec_of(str(given.get("name")), str(given.get("queue") or "default"), _options_of(given))


def _spec_in(known: Row[Any]) -> dict[str, Any]:
    return known.spec if isinstance(known.spec, dict) else {}


def _check(name: str, spec: Mapping[str, Any], known: Row[Any] | None, key: Key | None) -> None:
    """Raise the reason for which an actor is refused before anything is written."""
    for noun, given in (("name", spec["actor"]), ("queue", spec["queue"])):
        if (length := len(given)) > MAX_ACTOR_NAME:  # no later error may repeat it
            raise UnprocessableError(f"The {noun} has {length} characters; at most {MAX_ACTOR_NAME} are allowed.")
    _check_queue(spec, key)
    if known is not None:
        _check_is_actor(name, spec["actor"], known.endpoint_type, _spec_in(known), key)


def _check_is_actor(name: str, actor: str, endpoint_type: str, spec: Mapping[str, Any], key: Key | None) -> None:
    if endpoint_type != EndpointType.ACTOR or spec.get("actor") != actor:
        raise ConflictError(
            f"The endpoint {name!r} exists and is not the actor {actor!r}. Give the actor another `actor_name`."
        )
    _check_queue(spec, key)  # of another process, maybe with another key


def _check_queue(spec: Mapping[str, Any], key: Key | None) -> None:
    """Raise ForbiddenError if the queue of an actor, as it is stored or told, is closed to a key."""
    queue = str(spec.get("queue") or "default")
    if key is not None and not key.may_work(queue):
        raise ForbiddenError(
            f"The actor {spec.get('actor')!r} is of the queue {queue!r}, but the API key {key.name!r} has the scopes "
            f"{', '.join(f'{WORK_PREFIX}{each}' for each in key.queue_patterns)} only. Use a key with the scope "
            f"'{WORK_PREFIX}{queue}' or {Scope.ACTORS_WORK.value!r}, or give the actor another `queue_name`."
        )


def _create(
    database: Database, name: str, spec: Mapping[str, Any], options: Mapping[str, Any], key: Key | None
) -> None:
    definition = EndpointDefinition(
        type=EndpointType.ACTOR, payload_spec=None, config=None, spec=spec, retry_policy=_POLICY
    )
    priority = options.get("priority")
    flow = {"priority": min(max(priority, 0), MAX_PRIORITY)} if isinstance(priority, int) else {}
    change = AuditedChange(REGISTRAR)
    try:
        versions.create(database, name, definition, change, flow=flow, stuck_timeout_ms=MAX_TIMEOUT_MS)
    except ConflictError:  # another process has registered it concurrently, or a request has taken the name
        found = versions.get(database, name)
        _check_is_actor(name, spec["actor"], found.type, found.spec, key)


def _with_fields_of_requests(before: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the fields that requests have added to the spec before."""
    return {option: value for option, value in before.items() if option not in OPTIONS} | dict(spec)


def _change(database: Database, name: str, spec: Mapping[str, Any], key: Key | None) -> None:
    """Make a new version of the state that was checked; raises ConflictError if requests change it each time."""
    for _ in range(TRIES):
        endpoint = versions.get(database, name)
        _check_is_actor(name, spec["actor"], endpoint.type, endpoint.spec, key)
        try:
            _replace(database, endpoint, spec)
        except PreconditionFailedError:
            continue
        return
    raise ConflictError(f"Requests change the endpoint {name!r} at the same time. Start the process again.")


def _replace(database: Database, endpoint: Endpoint, spec: Mapping[str, Any]) -> None:
    """Make a new version of this state; everything that requests change stays."""
    definition = EndpointDefinition(
        type=EndpointType.ACTOR,
        payload_spec=endpoint.payload_spec,
        config=endpoint.config,
        spec=_with_fields_of_requests(endpoint.spec, spec),
        retry_policy=endpoint.retry_policy,
        keep_response=endpoint.keep_response,
        callbacks=endpoint.callbacks,
    )
    change = AuditedChange(REGISTRAR, Condition(match=StateTag(endpoint.tag)))
    versions.replace(database, endpoint.name, definition, change, stuck_timeout_ms=MAX_TIMEOUT_MS)
