"""Actors and the processes of users that offer them: endpoints of the type ACTOR, and rows that workers write."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.catalog.specs.actor import TRANSPORT, endpoint_name
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.db.rows import RowValue
from app.kernel.errors import ActorNotFoundError, WorkerNotFoundError
from app.kernel.sql import statement

_DEFAULTS = {name: TRANSPORT.spec.fields[name].load_default for name in ("queue", "timeout_ms", "max_lost")}
MAX_LISTED, MAX_SHOWN = 20, 200  # processes of each actor of a list, and of one actor

# Conditions on a row of `actor_processes` called p and its worker called w: connected now, and offers the endpoint.
IS_CONNECTED = "p.left_at IS NULL AND w.status = 'ALIVE' AND w.lease_expires_at > now()"


def offers(endpoint: str) -> str:
    return f"p.endpoints @> jsonb_build_array(CAST({endpoint} AS TEXT))"


def refusal(endpoint: str) -> str:
    """Return the SQL of the reason why the process may not run the actor of an endpoint; NULL without one."""
    return f"(p.refused ->> {endpoint})"


_OFFERED = f"""EXISTS (SELECT 1 FROM actor_processes AS p JOIN workers AS w ON w.worker_id = p.worker_id
                   WHERE {IS_CONNECTED} AND {offers("e.name")}
                     AND (CAST(:worker AS TEXT) IS NULL OR p.worker_id = :worker))"""  # noqa: S608 - constants
LIST = statement(
    "actors.list",
    """
    SELECT e.name, e.spec, e.priority, e.created_at FROM endpoints AS e
     WHERE e.endpoint_type = 'ACTOR' AND e.deleted_at IS NULL
       AND (CAST(:is_offered AS BOOLEAN) IS NULL OR {offered} = CAST(:is_offered AS BOOLEAN))
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (e.created_at, e.name) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY e.created_at DESC, e.name DESC LIMIT :limit
    """,
    offered=_OFFERED,
)
GET = statement(
    "actors.get",
    """
    SELECT e.name, e.spec, e.priority, e.created_at FROM endpoints AS e
     WHERE e.endpoint_type = 'ACTOR' AND e.deleted_at IS NULL AND e.name = :name
    """,
)
OFFERS = statement(
    "actors.offers",
    """
    SELECT n.name, f.worker_id, f.session_id, f.host, f.pid, f.threads, f.connected_at, f.offers
      FROM unnest(CAST(:names AS TEXT[])) AS n (name)
     CROSS JOIN LATERAL (
       SELECT p.worker_id, p.session_id, p.host, p.pid, p.threads, p.connected_at, count(*) OVER () AS offers
         FROM actor_processes AS p JOIN workers AS w ON w.worker_id = p.worker_id
        WHERE {connected} AND {offered} AND (CAST(:worker AS TEXT) IS NULL OR p.worker_id = :worker)
        ORDER BY p.connected_at DESC, p.session_id LIMIT :most) AS f
    """,
    connected=IS_CONNECTED,
    offered=offers("n.name"),
)
REFUSALS = statement(
    "actors.refusals",
    """
    SELECT n.name, f.worker_id, f.session_id, f.host, f.pid, f.reason
      FROM unnest(CAST(:names AS TEXT[])) AS n (name)
     CROSS JOIN LATERAL (
       SELECT p.worker_id, p.session_id, p.host, p.pid, {reason} AS reason
         FROM actor_processes AS p JOIN workers AS w ON w.worker_id = p.worker_id
        WHERE {connected} AND {reason} IS NOT NULL AND (CAST(:worker AS TEXT) IS NULL OR p.worker_id = :worker)
        ORDER BY p.connected_at DESC, p.session_id LIMIT :most) AS f
    """,
    connected=IS_CONNECTED,
    reason=refusal("n.name"),
)
# A worker that died reports no process as left: its last heartbeat is the last sign of its processes.
LAST_SEEN = statement(
    "actors.last_seen",
    """
    SELECT n.name, (
             SELECT max(CASE WHEN {connected} THEN now() ELSE COALESCE(p.left_at, w.last_beat_at) END)
               FROM actor_processes AS p LEFT JOIN workers AS w ON w.worker_id = p.worker_id
              WHERE {offered}) AS last_seen_at
      FROM unnest(CAST(:names AS TEXT[])) AS n (name)
    """,
    connected=IS_CONNECTED,
    offered=offers("n.name"),
)
IS_WORKER = statement("actors.is_worker", "SELECT 1 AS found FROM workers WHERE worker_id = :worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(RowValue):
    """A connected process that offers an actor."""

    worker_id: str
    session_id: str
    host: str
    pid: int | None
    threads: int
    connected_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(RowValue):
    """A connected process that has an actor, but may not run it."""

    worker_id: str
    session_id: str
    host: str
    pid: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedActor:
    """An actor with its endpoint and options, and the newest of the processes that offer it now.

    `last_seen_at` is None if no process of the last day has offered it.
    """

    actor: str
    endpoint: str
    queue: str
    priority: int
    timeout_ms: int
    soft_timeout_ms: int | None
    max_lost: int
    cron: str | None
    timezone: str | None
    interval: str | None
    registered_at: datetime
    process_count: int
    processes: Sequence[Offer]
    refusals: Sequence[Refusal]
    last_seen_at: datetime | None


def page_of_actors(database: Database, is_offered: bool | None, wanted: PageRequest) -> Page[ListedActor]:
    """Read a page of actors, newest first; with `is_offered` those that a connected process offers, or none does."""
    return _page(database, {"is_offered": is_offered, "worker": None}, wanted)


def page_of_worker(database: Database, worker_id: str, wanted: PageRequest) -> Page[ListedActor]:
    """Read a page of the actors that the processes at a worker offer; raises WorkerNotFoundError."""
    if not database.fetch(IS_WORKER, {"worker": worker_id}):
        raise WorkerNotFoundError.of(worker_id)
    return _page(database, {"is_offered": True, "worker": worker_id}, wanted)


def get_actor(database: Database, actor: str) -> ListedActor:
    """Read an actor by its name; raises ActorNotFoundError."""
    rows = database.fetch(GET, {"name": endpoint_name(actor)})
    if not rows or rows[0].spec.get("actor") != actor:
        raise ActorNotFoundError.of(actor)
    return _Offering.read(database, rows, None, MAX_SHOWN).of(rows[0])


def _page(database: Database, params: dict[str, Any], wanted: PageRequest) -> Page[ListedActor]:
    rows = database.fetch(LIST, params | wanted.bounds)
    offering = _Offering.read(database, rows[: wanted.limit], params["worker"], MAX_LISTED)
    return page_of(rows, "created_at", "name", wanted, offering.of)


class _Offering(NamedTuple):
    """Processes and instants by the endpoints of some actors."""

    counts: dict[str, int]
    processes: dict[str, list[Offer]]
    refusals: dict[str, list[Refusal]]
    seen: dict[str, datetime]

    @classmethod
    def read(cls, database: Database, rows: Sequence[Row[Any]], worker_id: str | None, most: int) -> "_Offering":
        names = [row.name for row in rows]
        counts, processes = dict[str, int](), defaultdict[str, list[Offer]](list)
        refusals = defaultdict[str, list[Refusal]](list)
        if not names:
            return cls(counts, processes, refusals, {})
        wanted = {"names": names, "worker": worker_id, "most": most}
        for row in database.fetch(OFFERS, wanted):
            counts[row.name] = row.offers
            processes[row.name].append(Offer.from_row(row))
        for row in database.fetch(REFUSALS, wanted):
            refusals[row.name].append(Refusal.from_row(row))
        seen = {row.name: row.last_seen_at for row in database.fetch(LAST_SEEN, {"names": names})}
        return cls(counts, processes, refusals, seen)

    def of(self, row: Row[Any]) -> ListedActor:
        spec, name = _DEFAULTS | row.spec, row.name
        return ListedActor(
            actor=spec["actor"],
            endpoint=name,
            queue=spec["queue"],
            priority=row.priority,
            timeout_ms=spec["timeout_ms"],
            soft_timeout_ms=spec.get("soft_timeout_ms"),
            max_lost=spec["max_lost"],
            cron=spec.get("cron"),
            timezone=spec.get("timezone"),
            interval=spec.get("interval"),
            registered_at=row.created_at,
            process_count=self.counts.get(name, 0),
            processes=self.processes.get(name, []),
            refusals=self.refusals.get(name, []),
            last_seen_at=self.seen.get(name),
        )
