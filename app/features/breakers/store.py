"""Rows of breakers: written by workers, and read and closed by the API.

The first failed delivery creates the row of a target; without a row the breaker is closed. Each change is a
compare-and-set on the revision it is based on, so exactly one process makes the change and writes its event.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from app.features.breakers.rules import SLOT_SECONDS, Counted, Counts, Reason, StoredBreaker, Transition
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.db.reads import Reads
from app.kernel.errors import BreakerNotFoundError, ConflictError
from app.kernel.formats import array_literal
from app.kernel.sql import read_together, statement
from schema.states import BreakerState

MAX_TRIES = 5
MAX_ENDPOINTS = 100  # of a breaker in an answer
SLOT_NOW = f"CAST(floor(EXTRACT(EPOCH FROM now()) / {SLOT_SECONDS}) AS BIGINT)"
MAX_SLOTS = 62  # of the longest window, with its first slot

# A target with a new failure is watched for its window: all processes write its results. The watch is renewed at most
# four times a window, and not while another transaction locks the row. Increments are not repeated after a lost answer:
# that loses the counts of one second at worst.
PUBLISH = statement(
    "targets.publish",
    """
    WITH free AS MATERIALIZED (
      SELECT target FROM breakers WHERE target = ANY (CAST(:failing AS TEXT[]))
       ORDER BY target LIMIT 10000 FOR UPDATE SKIP LOCKED),
    watched AS (
      INSERT INTO breakers (target, watched_until)
      SELECT w.target, now() + w.window_ms * INTERVAL '1 millisecond'
        FROM unnest(CAST(:failing AS TEXT[]), CAST(:windows_ms AS BIGINT[])) AS w (target, window_ms)
       WHERE w.target IN (SELECT target FROM free) OR NOT EXISTS (SELECT 1 FROM breakers AS b WHERE b.target = w.target)
       ORDER BY w.target
      ON CONFLICT (target) DO UPDATE SET watched_until = excluded.watched_until
       WHERE breakers.watched_until < excluded.watched_until - (excluded.watched_until - now()) / 4
      RETURNING target),
    led AS (
      INSERT INTO breaker_endpoints (target, endpoint)
      SELECT l.target, l.endpoint FROM unnest(CAST(:led AS TEXT[]), CAST(:endpoints AS TEXT[])) AS l (target, endpoint)
       ORDER BY l.target, l.endpoint
      ON CONFLICT (target, endpoint) DO NOTHING
      RETURNING target)
    INSERT INTO breaker_counts (target, slot, endpoint, ok, failed)
    SELECT c.target, {slot_now} - c.age, c.endpoint, c.ok, c.failed
      FROM unnest(CAST(:counted AS TEXT[]), CAST(:ages AS BIGINT[]), CAST(:sources AS TEXT[]),
                  CAST(:ok AS BIGINT[]), CAST(:failed AS BIGINT[])) AS c (target, age, endpoint, ok, failed)
     ORDER BY c.target, c.age DESC, c.endpoint
    ON CONFLICT (target, slot, endpoint) DO UPDATE
       SET ok = breaker_counts.ok + excluded.ok, failed = breaker_counts.failed + excluded.failed
    RETURNING target
    """,
    slot_now=SLOT_NOW,
)
COUNTED = statement(
    "targets.counted",
    """
    SELECT b.target, b.revision, c.endpoint, CAST(sum(c.ok) AS BIGINT) AS ok, CAST(sum(c.failed) AS BIGINT) AS failed
      FROM unnest(CAST(:targets AS TEXT[]), CAST(:slots AS BIGINT[])) AS a (target, slots)
      JOIN breakers AS b ON b.target = a.target AND b.state = 'closed'
      JOIN breaker_counts AS c ON c.target = a.target AND c.slot > {slot_now} - a.slots
     GROUP BY b.target, b.revision, c.endpoint
    """,
    slot_now=SLOT_NOW,
)
# Open, half-open and watched breakers, which are few; a part of the statement of `brokers.flow_state`.
NOTABLE = """SELECT b.target, b.state, b.revision, b.probe_worker,
           CAST(EXTRACT(EPOCH FROM COALESCE(b.probe_until, b.open_until, now()) - now()) AS DOUBLE PRECISION) AS left_s,
           CASE WHEN b.state = 'open' THEN (
             SELECT c.endpoint FROM breaker_counts AS c WHERE c.target = b.target AND c.endpoint <> ''
              GROUP BY c.endpoint ORDER BY sum(c.failed) DESC, c.endpoint LIMIT 1) END AS failing,
           CASE WHEN b.state = 'open' THEN (
             SELECT min(e.endpoint) < max(e.endpoint)
               FROM breaker_endpoints AS e WHERE e.target = b.target) END AS shared
      FROM breakers AS b WHERE b.state IN ('open', 'half_open') OR b.watched_until > now()"""
# The first process to ask after `open_until` gets the probe. An opening never shortens the open time, because a
# receiver may have asked for longer. Closing deletes the counts.
_LATER = "now() + CAST(:for_ms AS BIGINT) * INTERVAL '1 millisecond'"
CHANGE = statement(
    "targets.change",
    """
    WITH changed AS (
      UPDATE breakers
         SET state = CAST(:to AS TEXT), revision = revision + 1, reason = :reason, changed_at = now(),
             failed = CASE WHEN CAST(:to AS TEXT) <> 'closed' THEN COALESCE(CAST(:failed AS BIGINT), failed) END,
             results = CASE WHEN CAST(:to AS TEXT) <> 'closed' THEN COALESCE(CAST(:results AS BIGINT), results) END,
             open_until = CASE CAST(:to AS TEXT)
                 WHEN 'open' THEN GREATEST(COALESCE(open_until, now()), {later})
                 WHEN 'half_open' THEN open_until END,
             probe_worker = CASE CAST(:to AS TEXT) WHEN 'half_open' THEN CAST(:actor AS TEXT) END,
             probe_until = CASE CAST(:to AS TEXT) WHEN 'half_open' THEN {later} END,
             watched_until = GREATEST(watched_until, now() + CAST(:watch_ms AS BIGINT) * INTERVAL '1 millisecond')
       WHERE target = :target AND revision = CAST(:revision AS BIGINT)
         AND CASE CAST(:to AS TEXT)
                 WHEN 'half_open' THEN state <> 'closed' AND COALESCE(probe_until, open_until) <= now()
                 WHEN 'closed' THEN state <> 'closed' ELSE true END
      RETURNING target, state, reason, COALESCE(probe_until, open_until) AS until),
    forgotten AS (
      DELETE FROM breaker_counts WHERE target IN (SELECT target FROM changed WHERE state = 'closed') RETURNING target)
    INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, actor, open_until)
    SELECT :event_id, target, CAST(:before AS TEXT), state, reason, :actor, until FROM changed
    RETURNING CAST(EXTRACT(EPOCH FROM COALESCE(open_until, now()) - now()) AS DOUBLE PRECISION) AS left_s
    """,
    later=_LATER,
)
ENDPOINTS = f"""ARRAY(SELECT e.endpoint FROM breaker_endpoints AS e WHERE e.target = b.target
                                 ORDER BY e.endpoint LIMIT {MAX_ENDPOINTS}) AS endpoints"""  # noqa: S608 - a constant
_COLUMNS = f"""b.target, b.state, b.revision, b.reason, b.failed, b.results, b.changed_at, b.open_until, b.probe_worker,
           b.probe_until, {ENDPOINTS}"""
LIST = statement(
    "breakers.list",
    """
    SELECT {columns} FROM breakers AS b
     WHERE (CAST(:state AS TEXT) IS NULL OR b.state = :state)
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (b.changed_at, b.target) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY b.changed_at DESC, b.target DESC LIMIT :limit
    """,
    columns=_COLUMNS,
)
GET = statement(
    "breakers.get",
    "SELECT {columns} FROM breakers AS b WHERE b.target = :target",
    columns=_COLUMNS,
)
# Ignores breakers that no due execution has probed for a minute: their endpoints may resolve to other targets now.
_COUNTS = "b.state IN ('open', 'half_open') AND COALESCE(b.probe_until, b.open_until) > now() - INTERVAL '1 minute'"
HOLDS = f"""{_COUNTS} AND NOT EXISTS (
             SELECT 1 FROM endpoints AS p WHERE p.name = own.endpoint AND p.breaker = CAST('"off"' AS JSONB))"""  # noqa: S608 - a constant
"""Condition that a breaker `b` keeps the executions of an endpoint `own` waiting."""
OF_ENDPOINT = statement(
    "breakers.of_endpoint",
    """
    SELECT b.target, b.state, b.reason, b.changed_at, b.open_until, {endpoints}
      FROM breaker_endpoints AS own JOIN breakers AS b ON b.target = own.target
     WHERE own.endpoint = :endpoint AND {holds}
     ORDER BY b.target
    """,
    endpoints=ENDPOINTS,
    holds=HOLDS,
)
read_together(OF_ENDPOINT, endpoint="TEXT")
COUNT_BY_STATE = statement(
    "breakers.count_by_state",
    "SELECT b.state, count(*) AS n FROM breakers AS b WHERE {counts} GROUP BY b.state",
    counts=_COUNTS,
)
EVENTS = statement(
    "breakers.events",
    """
    SELECT event_id, target, from_state, to_state, reason, actor, open_until, occurred_at FROM breaker_events
     WHERE target = :target
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (occurred_at, event_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY occurred_at DESC, event_id DESC LIMIT :limit
    """,
)


def standing_of(row: Any, asked_at: float) -> StoredBreaker:
    """Return the state of a row of NOTABLE that was requested at an instant on `time.monotonic()`."""
    return StoredBreaker(
        *(row.target, BreakerState(row.state), row.revision, asked_at + row.left_s, row.probe_worker),
        *(row.failing, bool(row.shared)),
    )


def publish(
    database: Database, failing: Mapping[str, int], results: Sequence[Counted], resolved: Sequence[tuple[str, str]] = ()
) -> None:
    """Add the results of this process to the shared counts; after UnavailableError they may be lost.

    `failing` maps targets with a new failure to their window in milliseconds; `resolved` are pairs of a target and an
    endpoint that resolves to it. Each slot of an endpoint occurs at most once.
    """
    columns = zip(*results, strict=True) if results else ((),) * len(Counted._fields)
    lists = dict[str, Iterable[object]](zip(("counted", "ages", "sources", "ok", "failed"), columns, strict=True))
    lists |= {"failing": failing, "windows_ms": failing.values()}
    lists |= {"led": (target for target, _ in resolved), "endpoints": (endpoint for _, endpoint in resolved)}
    database.fetch(PUBLISH, {name: array_literal(values) for name, values in lists.items()}, repeatable=False)


def counted(database: Database, slots: Mapping[str, int]) -> dict[StoredBreaker, dict[str, Counts]]:
    """Return the results of all processes by endpoint, for closed targets; `slots` is the number of slots to count."""
    found: dict[StoredBreaker, dict[str, Counts]] = {}
    for row in database.fetch(COUNTED, {"targets": array_literal(slots), "slots": array_literal(slots.values())}):
        standing = StoredBreaker(row.target, revision=row.revision)
        found.setdefault(standing, {})[row.endpoint] = Counts(row.ok, row.failed)
    return found


def change(
    database: Database, before: StoredBreaker, to: Transition, actor: str | None, *, watch_ms: int = 0
) -> StoredBreaker | None:
    """Change a breaker unless it changed since its read; None if it did, or if the answer was lost."""
    asked_at = time.monotonic()
    of_row = {"target": before.target, "revision": before.revision, "before": before.state}
    params = {"event_id": ids.event_id(), "actor": actor, "watch_ms": watch_ms}
    rows = database.fetch(CHANGE, to._asdict() | of_row | params)
    if not rows:
        return None
    prober = actor if to.to is BreakerState.HALF_OPEN else None
    return StoredBreaker(before.target, to.to, before.revision + 1, asked_at + rows[0].left_s, prober)


def page(database: Database, state: BreakerState | None, wanted: PageRequest) -> Page[dict[str, Any]]:
    """Read a page of breakers, last changed first, each with its first MAX_ENDPOINTS endpoints."""
    return page_of(database.fetch(LIST, {"state": state} | wanted.bounds), "changed_at", "target", wanted, _shown)


def get(database: Database, target: str) -> dict[str, Any]:
    """Read a breaker; raise BreakerNotFoundError."""
    rows = database.fetch(GET, {"target": target})
    if not rows:
        raise BreakerNotFoundError.of(target)
    return _shown(rows[0])


def of_endpoint(reads: Reads, endpoint: str) -> Sequence[Row[Any]]:
    """Read the breakers that keep executions of an endpoint waiting."""
    return reads.fetch(OF_ENDPOINT, {"endpoint": endpoint})


def count_by_state(database: Database) -> dict[BreakerState, int]:
    counted = {row.state: row.n for row in database.fetch(COUNT_BY_STATE)}
    return {state: counted.get(state, 0) for state in (BreakerState.OPEN, BreakerState.HALF_OPEN)}


def events(database: Database, target: str, wanted: PageRequest) -> Page[dict[str, Any]]:
    """Read a page of a breaker's changes, newest first, kept longer than its row; raise BreakerNotFoundError."""
    rows = database.fetch(EVENTS, {"target": target} | wanted.bounds)
    if not rows and wanted.after is None:
        get(database, target)
    return page_of(rows, "occurred_at", "event_id", wanted, _shown)


def close(database: Database, target: str, actor: str) -> dict[str, Any]:
    """Close a breaker without a probe; raises BreakerNotFoundError, and ConflictError if workers keep changing it."""
    for _ in range(MAX_TRIES):
        found = get(database, target)
        if found["state"] is BreakerState.CLOSED:
            return found
        before = StoredBreaker(target, found["state"], found["revision"])
        change(database, before, Transition(BreakerState.CLOSED, Reason.CLOSED_BY_HAND), actor)
    raise ConflictError("Workers keep changing this breaker. Retry later.")


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {name: BreakerState(value) if name.endswith("state") else value for name, value in row._asdict().items()}
