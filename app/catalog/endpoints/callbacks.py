"""Callbacks: which endpoints are told how executions end, and what is wrong with naming one.

The graph of callbacks of the live endpoints has no loop, and no way in it is longer than MOST_STEPS when it is
registered: so what one execution causes comes to an end.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause, null

from app.catalog import revision, validation
from app.catalog.outcome import sample
from app.errors import Detail, InvalidCallbackError
from app.sql import statement
from schema.states import CallbackEvent

MOST_STEPS = 8

Fetch = Callable[[TextClause, Mapping[str, Any]], Sequence[Row[Any]]]
Callbacks = Mapping[str, str | None]

_NAMED = """
    SELECT e.name, e.callbacks, p.schema_json FROM endpoints AS e
      LEFT JOIN payload_specs AS p ON p.name = e.payload_spec_ref
     WHERE e.name = ANY (CAST(:names AS TEXT[])) AND e.deleted_at IS NULL"""
NAMED = statement("callbacks.named", _NAMED)
# A deletion waits, and then finds who names them.
LOCK_NAMED = statement("callbacks.lock_named", f"{_NAMED} ORDER BY e.name FOR KEY SHARE OF e")


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

    check(fetch, name, callbacks)


def check(fetch: Fetch, name: str, callbacks: Callbacks | None) -> None:
    """Check that the endpoints named exist, accept outcomes, and do not lead back to the endpoint `name`."""
    named = merged(None, callbacks)
    if not named:
        return
    found = {row.name: row for row in fetch(NAMED, {"names": sorted(set(named.values()))})}
    for event, target in named.items():
        if target not in found and target != name:
            raise _refused(event, f"There is no endpoint named {target!r}.")
    _refuse_loops(fetch, name, named, found)
    for event, target in named.items():
        refuse_deaf(event, target, found[target].schema_json)


def refuse_deaf(event: CallbackEvent, target: str, schema: Mapping[str, Any] | None) -> None:
    """Raise InvalidCallbackError where a payload spec accepts no outcome of an event."""
    faults = [] if schema is None else validation.compiled(schema).faults(sample(event))
    if faults:
        fault = faults[0]
        raise _refused(
            event,
            f"The payload spec of the endpoint {target!r} refuses outcomes: {fault['pointer'] or '/'}: "
            f"{fault['message']} GET /callbacks/schema has what it must accept.",
        )


def _refuse_loops(fetch: Fetch, name: str, named: Mapping[CallbackEvent, str], found: Mapping[str, Row[Any]]) -> None:
    """Walk on from the endpoints named, step by step; `ways` has how each was come to."""
    event_of = {target: event for event, target in named.items()}
    ways: dict[str, tuple[str, ...]] = {target: (name, target) for target in named.values()}
    level = dict(found)
    for _ in range(MOST_STEPS):
        if name in ways:
            way = ways[name]
            raise _refused(event_of[way[1]], f"It leads back to the endpoint itself: {' -> '.join(way)}.")
        fresh: dict[str, tuple[str, ...]] = {}
        for row in level.values():
            for target in merged(None, row.callbacks).values():
                if target not in ways:
                    fresh.setdefault(target, (*ways[row.name], target))
        if not fresh:
            return
        ways |= fresh
        level = {row.name: row for row in fetch(NAMED, {"names": sorted(fresh)})}
    way = max(ways.values(), key=len)
    raise _refused(event_of[way[1]], f"More than {MOST_STEPS} callbacks would follow each other: {' -> '.join(way)}.")


def _refused(event: CallbackEvent, message: str) -> InvalidCallbackError:
    at = f"/callbacks/{event.value}"
    return InvalidCallbackError(f"{at}: {message}", [Detail(pointer=at, message=message)])
