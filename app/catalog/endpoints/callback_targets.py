"""Callbacks: which endpoints are told how executions end, and what is wrong with naming one.

The graph of callbacks of the live endpoints has no loop, and no way in it is longer than MOST_STEPS: so what one
execution causes comes to an end.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause, null

from app.catalog import revision, validation
from app.catalog.callback_outcome import FIELDS, samples
from app.catalog.specs import compile_spec
from app.kernel.errors import Detail, InvalidCallbackError
from app.kernel.sql import statement
from schema.states import CallbackEvent, EndpointType

MOST_STEPS = 8

Fetch = Callable[[TextClause, Mapping[str, Any]], Sequence[Row[Any]]]
Callbacks = Mapping[str, str | None]
Way = tuple[str, ...]

_NAMED = """
    SELECT e.name, e.callbacks, e.endpoint_type, e.spec, p.schema_json FROM endpoints AS e
      LEFT JOIN payload_specs AS p ON p.name = e.payload_spec_ref
     WHERE e.name = ANY (CAST(:names AS TEXT[])) AND e.deleted_at IS NULL"""
NAMED = statement("callbacks.named", _NAMED)
# A deletion waits, and then finds who names them.
LOCK_NAMED = statement("callbacks.lock_named", f"{_NAMED} ORDER BY e.name FOR KEY SHARE OF e")
CALLERS = statement(
    "callbacks.callers",
    """
    SELECT name, callbacks FROM endpoints
     WHERE (callbacks->>'on_success' = ANY (CAST(:names AS TEXT[]))
            OR callbacks->>'on_failure' = ANY (CAST(:names AS TEXT[]))
            OR callbacks->>'on_attempt_failed' = ANY (CAST(:names AS TEXT[]))) AND deleted_at IS NULL
     ORDER BY name
    """,
)


def merged(of_version: Callbacks | None, own: Callbacks | None) -> dict[CallbackEvent, str]:
    """Return who is called back: those of an endpoint's version, and before them those of a job; null is nobody."""
    both = {**(of_version or {}), **(own or {})}
    return {event: name for event in CallbackEvent if (name := both.get(event.value)) is not None}


def stored(callbacks: Callbacks | None) -> Any:
    """Return what the column of an endpoint holds: those who are called back, NULL for nobody."""
    return {event.value: target for event, target in merged(None, callbacks).items()} or null()


def check_of_endpoint(connection: Connection, name: str, callbacks: Callbacks | None) -> None:
    """Check the callbacks of an endpoint; raises InvalidCallbackError.

    Of two changes that would close a loop together, the second waits for the first one here, and sees it.
    """
    if not any((callbacks or {}).values()):
        return
    revision.bump(connection, revision.CALLBACKS)

    def fetch(query: TextClause, params: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return connection.execute(LOCK_NAMED if query is NAMED else query, params).all()

    check(fetch, name, callbacks, before=longest_way_to(fetch, name))


def check(fetch: Fetch, name: str, callbacks: Callbacks | None, *, before: Way = ()) -> None:
    """Check that the endpoints named exist, accept outcomes, and do not lead back to the endpoint `name`.

    Nor may the way on from it be too long, behind the way `before` it.
    """
    named = merged(None, callbacks)
    if not named:
        return
    found = {row.name: row for row in fetch(NAMED, {"names": sorted(set(named.values()))})}
    for event, target in named.items():
        if target not in found and target != name:
            raise _refused(event, f"There is no endpoint named {target!r}.")
    _refuse_ways(fetch, name, named, found, before)
    for event, target in named.items():
        refuse_deaf(event, target, found[target].schema_json)
        _refuse_in_need(event, found[target])


def _refuse_in_need(event: CallbackEvent, target: Row[Any]) -> None:
    """Refuse an endpoint whose templates need what no outcome has: each of its deliveries would fail."""
    for needed in compile_spec(EndpointType(target.endpoint_type), target.spec).placeholders:
        if needed.namespace == "input" and needed.path[0] not in FIELDS:
            raise _refused(
                event,
                f"The endpoint {target.name!r} needs {needed} at {needed.pointer}, which no outcome has. "
                "GET /callbacks/schema has what it is given.",
            )


def refuse_deaf(event: CallbackEvent, target: str, schema: Mapping[str, Any] | None) -> None:
    """Raise InvalidCallbackError where a payload spec refuses an outcome of an event."""
    if schema is None:
        return
    validator = validation.compiled(schema)
    for outcome in samples(event):
        if faults := validator.faults(outcome):
            without = " of an execution that ended without an attempt" if outcome["reason"] else ""
            raise _refused(
                event,
                f"The payload spec of the endpoint {target!r} refuses outcomes{without}: "
                f"{faults[0]['pointer'] or '/'}: {faults[0]['message']} GET /callbacks/schema has what it must accept.",
            )


def _refuse_ways(
    fetch: Fetch, name: str, named: Mapping[CallbackEvent, str], found: Mapping[str, Row[Any]], before: Way
) -> None:
    """Walk on from the endpoints named, step by step; `ways` has one to each that is so many steps away.

    An endpoint may be several numbers of steps away: the longest one counts.
    """
    event_of = {target: event for event, target in named.items()}
    known = dict(found)
    ways: dict[str, Way] = {target: (name, target) for target in named.values()}
    while ways:
        for target, way in ways.items():
            if target == name:
                raise _refused(event_of[way[1]], f"It leads back to the endpoint itself: {' -> '.join(way)}.")
            if len(before) + len(way) - 1 > MOST_STEPS:
                told = " -> ".join((*before, *way))
                raise _refused(event_of[way[1]], f"More than {MOST_STEPS} callbacks would follow each other: {told}.")
        if unknown := sorted(ways.keys() - known.keys()):
            known |= {row.name: row for row in fetch(NAMED, {"names": unknown})}
        ways = {
            target: (*way, target)
            for through, way in ways.items()
            if through in known
            for target in merged(None, known[through].callbacks).values()
        }


def longest_way_to(fetch: Fetch, name: str) -> Way:
    """Return the endpoints on the longest way that leads to the endpoint `name`, without itself."""
    ways: dict[str, Way] = {name: ()}
    longest: Way = ()
    while ways and len(longest) <= MOST_STEPS:
        longest = next(iter(ways.values()))
        ways = {
            row.name: (row.name, *ways[target])
            for row in fetch(CALLERS, {"names": sorted(ways)})
            for target in merged(None, row.callbacks).values()
            if target in ways
        }
    return longest


def _refused(event: CallbackEvent, message: str) -> InvalidCallbackError:
    at = f"/callbacks/{event.value}"
    return InvalidCallbackError(f"{at}: {message}", [Detail(pointer=at, message=message)])
