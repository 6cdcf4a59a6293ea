"""Targets as workers write of them: counts of their results, and changes of their breakers.

A breaker has a row only once a delivery to its target has failed: what nobody writes of is closed. Each change is
conditional on the revision that it was decided on, so of several processes one makes it, and writes its event.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from sqlalchemy import Row

from app.features.breakers.rules import Counts, Reason, Source, Transition
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import array_literal
from app.kernel.sql import statement
from schema.states import BreakerState

# Absolute numbers: its second run changes nothing. The answer leaves out our own rows, whose numbers we know: a
# statement does not see what it writes itself. The results of an endpoint that is told apart have a row of their own,
# by worker and endpoint; no worker's id holds a slash. A worker whose row is pruned is a machine of its own.
PUBLISH = statement(
    "targets.publish",
    """
    WITH watched AS (
      INSERT INTO breakers (target, watched_until)
      SELECT w.target, now() + w.window_ms * INTERVAL '1 millisecond'
        FROM unnest(CAST(:watched AS TEXT[]), CAST(:windows_ms AS BIGINT[])) AS w (target, window_ms)
       ORDER BY w.target
      ON CONFLICT (target) DO UPDATE SET watched_until = GREATEST(breakers.watched_until, excluded.watched_until)
      RETURNING target),
    counted AS (
      INSERT INTO breaker_counts (target, slot, worker_id, ok, failed)
      SELECT c.target, c.slot, c.source, c.ok, c.failed
        FROM unnest(CAST(:counted AS TEXT[]), CAST(:slots AS BIGINT[]), CAST(:sources AS TEXT[]),
                    CAST(:ok AS BIGINT[]), CAST(:failed AS BIGINT[])) AS c (target, slot, source, ok, failed)
      ON CONFLICT (target, slot, worker_id) DO UPDATE SET ok = excluded.ok, failed = excluded.failed
      RETURNING target),
    led AS (
      INSERT INTO breaker_endpoints (target, endpoint)
      SELECT l.target, l.endpoint FROM unnest(CAST(:led AS TEXT[]), CAST(:endpoints AS TEXT[])) AS l (target, endpoint)
       ORDER BY l.target, l.endpoint
      ON CONFLICT (target, endpoint) DO NOTHING
      RETURNING target)
    SELECT c.target, c.slot, c.worker_id, c.ok, c.failed, w.host
      FROM unnest(CAST(:asked AS TEXT[]), CAST(:since AS BIGINT[])) AS a (target, slot)
      JOIN breaker_counts AS c ON c.target = a.target AND c.slot >= a.slot
       AND split_part(c.worker_id, '/', 1) <> :worker
      LEFT JOIN workers AS w ON w.worker_id = split_part(c.worker_id, '/', 1)
    """,
)

# What workers have to know: all but what is closed and had no failure of late.
IS_NOTABLE = "(b.state IN ('open', 'half_open') OR b.watched_until > now())"
NOTED = "b.target, b.state, b.revision, b.changed_at, b.open_until, b.probe_worker, b.probe_until"
NOTABLE = statement(
    "targets.notable",
    f"""
    SELECT always.db_now, {NOTED}
      FROM (SELECT now() AS db_now) AS always LEFT JOIN breakers AS b ON {IS_NOTABLE}
    """,  # noqa: S608 - constants of this module
)

_EVENT = """
    INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, actor, open_until)
    SELECT :event_id, target, :before, state, reason, :actor, open_until FROM changed
    RETURNING target, to_state, open_until, occurred_at
"""

# An earlier end is no reason to send again: a receiver may have asked for longer.
OPEN = statement(
    "targets.open",
    f"""
    WITH changed AS (
      UPDATE breakers
         SET state = 'open', revision = revision + 1, reason = :reason, changed_at = now(),
             failed = COALESCE(CAST(:failed AS BIGINT), failed), results = COALESCE(CAST(:results AS BIGINT), results),
             open_until = GREATEST(COALESCE(open_until, now()),
                                   now() + CAST(:for_ms AS BIGINT) * INTERVAL '1 millisecond'),
             probe_worker = NULL, probe_until = NULL
       WHERE target = :target AND revision = CAST(:revision AS BIGINT)
      RETURNING target, state, reason, open_until)
    {_EVENT}""",  # noqa: S608 - a constant of this module
)
# The single probe: whoever comes later finds neither this revision nor a time that has passed.
PROBE = statement(
    "targets.probe",
    f"""
    WITH changed AS (
      UPDATE breakers
         SET state = 'half_open', revision = revision + 1, reason = :reason, changed_at = now(),
             probe_worker = :actor, probe_until = now() + CAST(:for_ms AS BIGINT) * INTERVAL '1 millisecond'
       WHERE target = :target AND revision = CAST(:revision AS BIGINT)
         AND (state = 'open' AND open_until <= now() OR state = 'half_open' AND probe_until <= now())
      RETURNING target, state, reason, probe_until AS open_until)
    {_EVENT}""",  # noqa: S608 - a constant of this module
)
# With the counts that are held against it.
CLOSE = statement(
    "targets.close",
    f"""
    WITH changed AS (
      UPDATE breakers
         SET state = 'closed', revision = revision + 1, reason = :reason, changed_at = now(),
             failed = NULL, results = NULL, open_until = NULL, probe_worker = NULL, probe_until = NULL
       WHERE target = :target AND revision = CAST(:revision AS BIGINT) AND state IN ('open', 'half_open')
      RETURNING target, state, reason, open_until),
    forgotten AS (DELETE FROM breaker_counts WHERE target IN (SELECT target FROM changed) RETURNING target)
    {_EVENT}""",  # noqa: S608 - a constant of this module
)
_CHANGES = {BreakerState.OPEN: OPEN, BreakerState.HALF_OPEN: PROBE, BreakerState.CLOSED: CLOSE}


class Noted(NamedTuple):
    """What the row of a breaker says; a breaker without one is closed, with revision 0."""

    target: str
    state: BreakerState
    revision: int
    changed_at: datetime
    until: datetime | None
    """When it may be probed, or when its probe is given up."""
    probe_worker: str | None

    def forgotten(self) -> Self:
        """Return what it is once its row is gone."""
        return self._replace(state=BreakerState.CLOSED, revision=self.revision + 1)


@dataclass(frozen=True, slots=True)
class Notes:
    """The breakers that workers have to know, as of an instant of the database's clock.

    They were asked for at `asked_at`, on `time.monotonic()`.
    """

    now: datetime
    asked_at: float
    breakers: Sequence[Noted]

    @classmethod
    def of(cls, rows: Sequence[Row[Any]], asked_at: float) -> Self:
        """Take them out of rows with the columns NOTED and `db_now`, of which there is one at least."""
        return cls(rows[0].db_now, asked_at, [noted(row) for row in rows if row.target is not None])

    def until(self, note: Noted) -> float:
        """Return when the state of a breaker may change, on `time.monotonic()`, or a little before."""
        return self.asked_at if note.until is None else self.asked_at + (note.until - self.now).total_seconds()


@dataclass(frozen=True, slots=True)
class Publication:
    """What a worker has to tell of its targets; a slot of a target and an endpoint at most once."""

    watched: Mapping[str, int]
    """Targets with a failure of late, and for how long others shall count them too, in milliseconds."""
    counts: Sequence[tuple[str, int, str, int, int]]
    """Target, slot, endpoint, successes and failures: all of this process so far; "" for the other endpoints."""
    endpoints: Sequence[tuple[str, str]]
    """Target and endpoint: which lead to targets that are watched."""
    asked: Mapping[str, int]
    """Targets whose counts by others are wanted, from a slot on."""


def notable(database: Database) -> Notes:
    """Read the breakers that are not closed, and those that are watched."""
    asked_at = time.monotonic()
    return Notes.of(database.fetch(NOTABLE), asked_at)


def publish(database: Database, worker_id: str, told: Publication) -> dict[str, dict[Source, Counts]]:
    """Write what a worker has counted; returns what others have, by target."""
    targets, slots, endpoints, ok, failed = zip(*sorted(told.counts), strict=True) if told.counts else ((),) * 5
    led = sorted(told.endpoints)
    params = {
        "worker": worker_id,
        "watched": array_literal(told.watched),
        "windows_ms": array_literal(told.watched.values()),
        "counted": array_literal(targets),
        "slots": array_literal(slots),
        "sources": array_literal(f"{worker_id}/{endpoint}" if endpoint else worker_id for endpoint in endpoints),
        "ok": array_literal(ok),
        "failed": array_literal(failed),
        "led": array_literal(target for target, _ in led),
        "endpoints": array_literal(endpoint for _, endpoint in led),
        "asked": array_literal(told.asked),
        "since": array_literal(told.asked.values()),
    }
    found: dict[str, dict[Source, dict[int, tuple[int, int]]]] = {}
    for row in database.fetch(PUBLISH, params):
        worker, _, endpoint = row.worker_id.partition("/")
        source = Source(worker, endpoint, row.host or worker)
        found.setdefault(row.target, {}).setdefault(source, {})[row.slot] = (row.ok, row.failed)
    return {target: dict(counted) for target, counted in found.items()}


def change(database: Database, before: Noted, transition: Transition, actor: str | None) -> Noted | None:
    """Make a change that was decided on a row as it was read; None when somebody else was faster.

    None too when it was made, but its answer was lost.
    """
    params = {
        "event_id": ids.event_id(),
        "target": before.target,
        "revision": before.revision,
        "before": before.state,
        "reason": transition.reason,
        "actor": actor,
        "for_ms": transition.for_ms,
        "failed": transition.failed,
        "results": transition.results,
    }
    rows = database.fetch(_CHANGES[transition.to], params)
    if not rows:
        return None
    row = rows[0]
    prober = actor if transition.reason is Reason.PROBE else None
    return Noted(before.target, transition.to, before.revision + 1, row.occurred_at, row.open_until, prober)


def noted(row: Row[Any]) -> Noted:
    """Take it out of a row of `breakers`."""
    state = BreakerState(row.state)
    until = row.probe_until if state is BreakerState.HALF_OPEN else row.open_until
    return Noted(row.target, state, row.revision, row.changed_at, until, row.probe_worker)
