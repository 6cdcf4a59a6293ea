"""Routing of endpoints to queues: the stored routes, and the `routed_queue` of each live endpoint.

Jobs match no patterns: the row of the endpoint holds its `routed_queue`, which changes with the routes in one
transaction.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange, tag_of
from app.kernel.db import Database, deadline, hardly_wait
from app.kernel.db.reads import fetch_of
from app.kernel.formats import EPOCH
from app.kernel.function_types import AnyFunction
from app.kernel.name_patterns import matches
from app.kernel.sql import statement
from schema.states import RouteSource

STRIDE = 500  # endpoints per page

READ = statement(
    "routes.read",
    """
    SELECT c.revision, r.pattern, r.queue, r.source
      FROM catalog_revision AS c LEFT JOIN routes AS r ON true WHERE c.id = 'routes' ORDER BY r.position NULLS FIRST
    """,
)
# The creation of an endpoint takes a shared lock, so that a change of the routes does not miss the new row.
SHARE = statement("routes.share", "SELECT revision FROM catalog_revision WHERE id = 'routes' FOR SHARE")
LOCK = statement("routes.lock", "SELECT revision FROM catalog_revision WHERE id = 'routes' FOR UPDATE")
BUMP = statement(
    "routes.bump",
    "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'routes' AND revision = :known RETURNING revision",
)
CLEAR = statement("routes.clear", "DELETE FROM routes WHERE position >= 0")
INSERT = statement(
    "routes.insert",
    """
    INSERT INTO routes (position, pattern, queue, source)
    SELECT u.position, u.pattern, u.queue, :source
      FROM unnest(CAST(:positions AS BIGINT[]), CAST(:patterns AS TEXT[]), CAST(:queues AS TEXT[]))
        AS u (position, pattern, queue)
    """,
)
ENDPOINTS = statement(
    "routes.endpoints",
    """
    SELECT name, queue, routed_queue, lower(endpoint_type) AS default_queue FROM endpoints
     WHERE name > :after AND deleted_at IS NULL ORDER BY name LIMIT :limit
    """,
)
MOVE = statement(
    "routes.move",
    """
    UPDATE endpoints AS e SET routed_queue = u.queue
      FROM unnest(CAST(:names AS TEXT[]), CAST(:queues AS TEXT[])) AS u (name, queue)
     WHERE e.name = u.name AND e.name = ANY (CAST(:names AS TEXT[])) AND e.deleted_at IS NULL
    """,
)


class Route(NamedTuple):
    """Pattern of endpoint names, and the queue of matching endpoints.

    `*` matches any number of characters, `?` one character, and all other characters themselves.
    """

    pattern: str
    queue: str


class Routing(NamedTuple):
    """Current routes, in order, their source, and the entity tag of this state."""

    routes: tuple[Route, ...]
    source: RouteSource
    tag: str


class Move(NamedTuple):
    """Endpoint whose queue other routes would change."""

    endpoint: str
    before: str
    after: str


def queue_for(routes: Sequence[Route], endpoint: str) -> tuple[int, Route] | None:
    """Return the first route that matches an endpoint's name, with its position; None without a match."""
    deadline.check()  # matching a page of names against very many patterns takes seconds
    return next(((position, route) for position, route in enumerate(routes) if matches(route.pattern, endpoint)), None)


def load(connection: Connection | Database) -> Routing:
    rows = fetch_of(connection)(READ, {})
    routes = tuple(Route(row.pattern, row.queue) for row in rows if row.pattern is not None)
    source = RouteSource(rows[0].source) if routes else RouteSource.ENVIRONMENT
    return Routing(routes, source, tag_of(EPOCH, rows[0].revision))


def queue_of(connection: Connection, endpoint: str) -> str | None:
    """Return the queue of a new endpoint; the routes cannot change until the transaction ends."""
    connection.execute(SHARE)
    return _routed(load(connection).routes, endpoint)


def change_routes(database: Database, routes: Sequence[Route], source: RouteSource, change: AuditedChange) -> Routing:
    """Replace all routes and update the endpoints; raises PreconditionFailedError. Existing executions stay."""

    def body(connection: Connection) -> Routing:
        (known,) = connection.execute(LOCK).one()
        before = load(connection)
        change.condition.check(before.tag)
        _store(connection, routes, source, known)
        old, new = ([[route.pattern, route.queue] for route in each] for each in (before.routes, routes))
        change.record(connection, AuditAction.REPLACE, ResourceType.ROUTES, "routes", before=old, after=new)
        return load(connection)

    return change.make(database, body, again=load)


def adopt(database: Database, routes: Sequence[Route]) -> None:
    """Store the routes of the environment, unless they were set through the API.

    Updates the endpoints even if the routes are unchanged: a process of an earlier version may have added endpoints.
    Takes no lock without a change: a transaction that has called `te_send` may hold it for longer than a process may
    take to start.
    """
    if _is_adopted(database, routes):
        return

    def body(connection: Connection) -> None:
        (known,) = connection.execute(LOCK).one()
        stored = load(connection)
        routed = stored.routes if stored.source is RouteSource.API else tuple(routes)
        if routed == stored.routes:
            _move_all(connection, routed)
        else:
            _store(connection, routed, RouteSource.ENVIRONMENT, known)

    database.transact(body)


def _is_adopted(database: Database, routes: Sequence[Route]) -> bool:
    stored = load(database)
    if stored.source is not RouteSource.API and tuple(routes) != stored.routes:
        return False
    return all(
        row.routed_queue == _routed(stored.routes, row.name) for row in chain.from_iterable(_pages(database.fetch))
    )


def moves(database: Database, routes: Sequence[Route]) -> Iterator[Move]:
    for row in chain.from_iterable(_pages(database.fetch)):
        now = row.queue or row.routed_queue or row.default_queue
        then = row.queue or _routed(routes, row.name) or row.default_queue
        if now != then:
            yield Move(row.name, now, then)


def _pages(read: AnyFunction) -> Iterator[Sequence[Row[Any]]]:
    """Read the live endpoints in the order of their names."""
    after = ""
    while page := list(read(ENDPOINTS, {"after": after, "limit": STRIDE})):
        yield page
        after = page[-1].name


def _routed(routes: Sequence[Route], endpoint: str) -> str | None:
    found = queue_for(routes, endpoint)
    return found[1].queue if found else None


def _store(connection: Connection, routes: Sequence[Route], source: RouteSource, known: int) -> None:
    connection.execute(CLEAR)
    if routes:
        columns = {"patterns": [route.pattern for route in routes], "queues": [route.queue for route in routes]}
        connection.execute(INSERT, columns | {"positions": list(range(len(routes))), "source": source.value})
    hardly_wait(connection)  # for endpoints, since new endpoints wait for this transaction
    _move_all(connection, routes)
    connection.execute(BUMP, {"known": known}).one()


def _move_all(connection: Connection, routes: Sequence[Route]) -> None:
    """Update `routed_queue` of all live endpoints, in the order of their names."""
    for page in _pages(connection.execute):
        queues = {row.name: _routed(routes, row.name) for row in page}
        moved = [row.name for row in page if row.routed_queue != queues[row.name]]
        if moved:
            connection.execute(MOVE, {"names": moved, "queues": [queues[name] for name in moved]})
