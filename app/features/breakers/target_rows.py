"""Rows of breakers, written by workers: counts of results, and changes of state.

The first failed delivery creates the row of a target; without a row the breaker is closed. Each change is a
compare-and-set on the revision it is based on, so exactly one process makes the change and writes its event.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.features.breakers.rules import SLOT_SECONDS, Counts, Transition
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import array_literal
from app.kernel.sql import statement
from schema.states import BreakerState

SLOT_NOW = f"CAST(floor(EXTRACT(EPOCH FROM now()) / {SLOT_SECONDS}) AS BIGINT)"
MAX_SLOTS = 62  # of the longest window, with its first slot

# A target with a new failure is watched for its window: all processes write its results. The watch is renewed at most
# four times a window. Increments are not repeated after a lost answer: that loses the counts of one second at worst.
PUBLISH = statement(
    "targets.publish",
    f"""
    WITH watched AS (
      INSERT INTO breakers (target, watched_until)
      SELECT w.target, now() + w.window_ms * INTERVAL '1 millisecond'
        FROM unnest(CAST(:failing AS TEXT[]), CAST(:windows_ms AS BIGINT[])) AS w (target, window_ms)
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
    SELECT c.target, {SLOT_NOW} - c.age, c.endpoint, c.ok, c.failed
      FROM unnest(CAST(:counted AS TEXT[]), CAST(:ages AS BIGINT[]), CAST(:sources AS TEXT[]),
                  CAST(:ok AS BIGINT[]), CAST(:failed AS BIGINT[])) AS c (target, age, endpoint, ok, failed)
     ORDER BY c.target, c.age DESC, c.endpoint
    ON CONFLICT (target, slot, endpoint) DO UPDATE
       SET ok = breaker_counts.ok + excluded.ok, failed = breaker_counts.failed + excluded.failed
    RETURNING target
    """,  # noqa: S608 - a constant of this module
)
COUNTED = statement(
    "targets.counted",
    f"""
    SELECT b.target, b.revision, c.endpoint, CAST(sum(c.ok) AS BIGINT) AS ok, CAST(sum(c.failed) AS BIGINT) AS failed
      FROM unnest(CAST(:targets AS TEXT[]), CAST(:slots AS BIGINT[])) AS a (target, slots)
      JOIN breakers AS b ON b.target = a.target AND b.state = 'closed'
      JOIN breaker_counts AS c ON c.target = a.target AND c.slot > {SLOT_NOW} - a.slots
     GROUP BY b.target, b.revision, c.endpoint
    """,  # noqa: S608 - a constant of this module
)
# Open, half-open and watched breakers: few rows.
NOTABLE = statement(
    "targets.notable",
    """
    SELECT b.target, b.state, b.revision, b.probe_worker,
           CAST(EXTRACT(EPOCH FROM COALESCE(b.probe_until, b.open_until, now()) - now()) AS DOUBLE PRECISION) AS left_s
      FROM breakers AS b WHERE b.state IN ('open', 'half_open') OR b.watched_until > now()
    """,
)
# The first process to ask after `open_until` gets the probe. An opening never shortens the open time, because a
# receiver may have asked for longer. Closing deletes the counts.
_LATER = "now() + CAST(:for_ms AS BIGINT) * INTERVAL '1 millisecond'"
CHANGE = statement(
    "targets.change",
    f"""
    WITH changed AS (
      UPDATE breakers
         SET state = CAST(:to AS TEXT), revision = revision + 1, reason = :reason, changed_at = now(),
             failed = CASE WHEN CAST(:to AS TEXT) <> 'closed' THEN COALESCE(CAST(:failed AS BIGINT), failed) END,
             results = CASE WHEN CAST(:to AS TEXT) <> 'closed' THEN COALESCE(CAST(:results AS BIGINT), results) END,
             open_until = CASE CAST(:to AS TEXT)
                 WHEN 'open' THEN GREATEST(COALESCE(open_until, now()), {_LATER})
                 WHEN 'half_open' THEN open_until END,
             probe_worker = CASE CAST(:to AS TEXT) WHEN 'half_open' THEN CAST(:actor AS TEXT) END,
             probe_until = CASE CAST(:to AS TEXT) WHEN 'half_open' THEN {_LATER} END,
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
    """,  # noqa: S608 - a constant of this module
)


class Standing(NamedTuple):
    """Stored state of a breaker, which may be probed from `until` (on `time.monotonic()`) on."""

    target: str
    state: BreakerState = BreakerState.CLOSED
    revision: int = 0
    until: float = 0.0
    probe_worker: str | None = None


class Counted(NamedTuple):
    """Results of an endpoint at a target in a slot, counted back from the current slot."""

    target: str
    age: int
    endpoint: str
    ok: int
    failed: int


def notable(database: Database) -> list[Standing]:
    asked_at = time.monotonic()
    return [
        Standing(row.target, BreakerState(row.state), row.revision, asked_at + row.left_s, row.probe_worker)
        for row in database.fetch(NOTABLE)
    ]


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


def counted(database: Database, slots: Mapping[str, int]) -> dict[Standing, dict[str, Counts]]:
    """Return the results of all processes by endpoint, for closed targets; `slots` is the number of slots to count."""
    found: dict[Standing, dict[str, Counts]] = {}
    params = {"targets": array_literal(slots), "slots": array_literal(slots.values())}
    for row in database.fetch(COUNTED, params):
        known = found.setdefault(Standing(row.target, revision=row.revision), {})
        known[row.endpoint] = Counts(row.ok, row.failed)
    return found


def change(
    database: Database, before: Standing, to: Transition, actor: str | None, *, watch_ms: int = 0
) -> Standing | None:
    """Change a breaker unless it changed since its read; None if it did, or if the answer was lost."""
    asked_at = time.monotonic()
    of_row = {"target": before.target, "revision": before.revision, "before": before.state}
    params = {"event_id": ids.event_id(), "actor": actor, "watch_ms": watch_ms}
    rows = database.fetch(CHANGE, to._asdict() | of_row | params)
    if not rows:
        return None
    prober = actor if to.to is BreakerState.HALF_OPEN else None
    return Standing(before.target, to.to, before.revision + 1, asked_at + rows[0].left_s, prober)
