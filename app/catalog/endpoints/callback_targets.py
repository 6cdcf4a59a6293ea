"""Callbacks: endpoints that are called back at completion events, and checks of these references.

The callback graph of the live endpoints has no cycle and no path longer than MAX_STEPS, so every chain of callbacks
ends.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause, null

from app.catalog import payload_validator, revision
from app.catalog.callback_outcome import FIELDS, samples
from app.catalog.specs import compile_spec
from app.kernel.errors import Detail, EndpointNotFoundError, InvalidCallbackError
from app.kernel.function_types import Fetch
from app.kernel.sql import statement
from schema.states import CallbackEvent, EndpointType

MAX_STEPS = 8

Callbacks = Mapping[str, str | None]
Path = tuple[str, ...]

_NAMED = """
    SELECT e.name, e.callbacks, e.endpoint_type, e.spec, p.schema_json FROM endpoints AS e
      LEFT JOIN payload_specs AS p ON p.name = e.payload_spec_ref
     WHERE e.name = ANY (CAST(:names AS TEXT[])) AND e.deleted_at IS NULL"""
NAMED = statement("callbacks.named", _NAMED)
# A concurrent deletion waits for this lock, and then finds the new reference.
LOCK_NAMED = statement("callbacks.lock_named", "{named} ORDER BY e.name FOR KEY SHARE OF e", named=_NAMED)
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
    """Merge the callbacks of an endpoint version with a job's overrides; null removes a callback."""
    both = {**(of_version or {}), **(own or {})}
    return {event: name for event in CallbackEvent if (name := both.get(event.value)) is not None}


def stored(callbacks: Callbacks | None) -> Any:
    """Return the value of the endpoint's `callbacks` column; NULL without callbacks."""
    return {event.value: target for event, target in merged(None, callbacks).items()} or null()


def check_of_endpoint(connection: Connection, name: str, callbacks: Callbacks | None) -> None:
    """Check the callbacks of an endpoint; raises InvalidCallbackError.

    Changes are serialised here, so that two concurrent changes cannot close a cycle together.
    """
    if not any((callbacks or {}).values()):
        return
    revision.bump(connection, revision.CALLBACKS)

    def fetch(query: TextClause, params: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return connection.execute(LOCK_NAMED if query is NAMED else query, params).all()

    check(fetch, name, callbacks, before=longest_path_to(fetch, name))


def check(fetch: Fetch, name: str, callbacks: Callbacks | None, *, before: Path = ()) -> None:
    """Check that the named endpoints exist, accept outcomes, and start no cycle and no path that is too long.

    `before` is the longest path that leads to the endpoint `name`.
    """
    named = merged(None, callbacks)
    if not named:
        return
    found = {row.name: row for row in fetch(NAMED, {"names": sorted(set(named.values()))})}
    for event, target in named.items():
        if target not in found and target != name:
            raise _refused(event, EndpointNotFoundError.fault_of(target))
    _check_paths(fetch, name, named, found, before)
    for event, target in named.items():
        check_schema_accepts(event, target, found[target].schema_json)
        _check_placeholders(event, found[target])


def _check_placeholders(event: CallbackEvent, target: Row[Any]) -> None:
    """Refuse an endpoint whose templates need a field that no outcome has: every delivery would fail."""
    for needed in compile_spec(EndpointType(target.endpoint_type), target.spec).placeholders:
        if needed.namespace == "input" and needed.path and needed.path[0] not in FIELDS:
            raise _refused(
                event,
                f"The endpoint {target.name!r} needs {needed} at {needed.pointer}, which no outcome has. "
                "GET /callbacks/schema returns the schema of outcomes.",
            )


def check_schema_accepts(event: CallbackEvent, target: str, schema: Mapping[str, Any] | None) -> None:
    """Raise InvalidCallbackError if a payload spec refuses a sample outcome of an event."""
    if schema is None:
        return
    validator = payload_validator.compiled(schema)
    for outcome in samples(event):
        if faults := validator.faults(outcome):
            without = " of an execution that ended without an attempt" if outcome["reason"] else ""
            raise _refused(
                event,
                f"The payload spec of the endpoint {target!r} refuses outcomes{without}: "
                f"{faults[0]['pointer'] or '/'}: {faults[0]['message']} "
                "GET /callbacks/schema returns the schema of outcomes.",
            )


def _check_paths(
    fetch: Fetch, name: str, named: Mapping[CallbackEvent, str], found: Mapping[str, Row[Any]], before: Path
) -> None:
    """Follow the callbacks breadth-first; `paths` holds one path to each endpoint at the current distance.

    An endpoint can be at several distances: the longest counts.
    """
    event_of = {target: event for event, target in named.items()}
    known = dict(found)
    paths: dict[str, Path] = {target: (name, target) for target in named.values()}
    while paths:
        for target, path in paths.items():
            if target == name:
                raise _refused(event_of[path[1]], f"Callbacks must not lead back to the endpoint: {' -> '.join(path)}.")
            if len(before) + len(path) - 1 > MAX_STEPS:
                chain = " -> ".join((*before, *path))
                raise _refused(event_of[path[1]], f"More than {MAX_STEPS} callbacks would follow each other: {chain}.")
        if unknown := sorted(paths.keys() - known.keys()):
            known |= {row.name: row for row in fetch(NAMED, {"names": unknown})}
        paths = {
            target: (*path, target)
            for through, path in paths.items()
            if through in known
            for target in merged(None, known[through].callbacks).values()
        }


def longest_path_to(fetch: Fetch, name: str) -> Path:
    """Return the endpoints on the longest path to the endpoint `name`, without `name`."""
    paths: dict[str, Path] = {name: ()}
    longest: Path = ()
    while paths and len(longest) <= MAX_STEPS:
        longest = next(iter(paths.values()))
        paths = {
            row.name: (row.name, *paths[target])
            for row in fetch(CALLERS, {"names": sorted(paths)})
            for target in merged(None, row.callbacks).values()
            if target in paths
        }
    return longest


def _refused(event: CallbackEvent, message: str) -> InvalidCallbackError:
    return InvalidCallbackError.of_faults(Detail(pointer=f"/callbacks/{event.value}", message=message))
