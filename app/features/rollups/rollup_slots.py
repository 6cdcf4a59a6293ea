"""Slots of rollups: computed in order behind a mark for each length, rebuilt behind the marks, and deleted by age."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection

from app.features.rollups.rollup_statements import FILL, FILL_EMPTY, FOLD
from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.formats import EPOCH
from app.kernel.sql import hot_statement, statement
from app.queue.reading.horizon import horizon_of_attempts
from schema.rollup_bounds import STEPS_S

SHORT_S, MINUTE_S, HOUR_S = STEPS_S
MAX_SLOTS = 60  # short slots in one run
MAX_BEHIND = timedelta(days=1)  # the chore leaves out older time
KEPT_S = {SHORT_S: 3 * 3600, MINUTE_S: 3 * 86_400}  # hours are kept for TE_ROLLUP_DAYS

MARKS = hot_statement(
    "rollups.marks",
    """
    SELECT now() AS now, u.step_s, m.reached FROM unnest(CAST(:steps AS BIGINT[])) AS u (step_s)
      LEFT JOIN rollup_marks AS m ON m.step_s = u.step_s
    """,
)
_PUT_MARKS = """
    INSERT INTO rollup_marks (step_s, reached)
    SELECT u.step_s, CAST(:at AS TIMESTAMPTZ) FROM unnest(CAST(:steps AS BIGINT[])) AS u (step_s)
    ON CONFLICT (step_s) {or_else}
    """
BEGIN = statement("rollups.begin", _PUT_MARKS, or_else="DO NOTHING")
MARK = statement("rollups.mark", _PUT_MARKS, or_else="DO UPDATE SET reached = excluded.reached")
# On the condition that no process has filled a slot since the marks were read. Marks of rebuilds are negative.
LEAVE_OUT = statement(
    "rollups.leave_out",
    """
    WITH held AS MATERIALIZED (
      SELECT step_s FROM rollup_marks WHERE step_s > 0 ORDER BY step_s LIMIT :count FOR UPDATE SKIP LOCKED)
    UPDATE rollup_marks AS m SET reached = CAST(:at AS TIMESTAMPTZ)
      FROM held
     WHERE m.step_s = held.step_s AND (SELECT count(*) FROM held) = CAST(:count AS BIGINT)
       AND m.reached < CAST(:at AS TIMESTAMPTZ) - INTERVAL '23 hours'
    RETURNING m.step_s
    """,
)
_OF_SLOTS = """
    DELETE FROM {table}
     WHERE step_s = :step AND slot >= CAST(:since AS TIMESTAMPTZ) AND slot < CAST(:until AS TIMESTAMPTZ)
    """
CLEAR = statement("rollups.clear", _OF_SLOTS, table="delivery_rollups")
CLEAR_FAILURES = statement("rollups.clear_failures", _OF_SLOTS, table="failure_rollups")
# A slot stays until the longer slot is folded from it: the longer slot would lack its figures otherwise.
_IS_OLD = """step_s = CAST(:step AS BIGINT) AND slot < now() - CAST(:kept_s AS BIGINT) * INTERVAL '1 second'
             AND slot < COALESCE((SELECT m.reached FROM rollup_marks AS m WHERE m.step_s = CAST(:longer AS BIGINT)),
                                 now())"""
PRUNES = tuple(
    deletion(name, table, key, _IS_OLD, time="slot", shown=key[:2])
    for name, table, key in (
        ("rollups.prune", "delivery_rollups", ("endpoint", "step_s", "slot")),
        ("rollups.prune_failures", "failure_rollups", ("endpoint", "step_s", "slot", "error_type")),
        ("rollups.prune_samples", "queue_samples", ("queue", "step_s", "slot")),
    )
)


def floored(instant: datetime, seconds: int) -> datetime:
    """Return the start of the slot of an instant."""
    return instant - (instant - EPOCH) % timedelta(seconds=seconds)


class Marks(NamedTuple):
    """Ends of the last computed slots by their lengths, empty before the first run, and the time of the database."""

    reached: dict[int, datetime]
    now: datetime


def marks(database: Database) -> Marks:
    rows = database.fetch(MARKS, {"steps": [*STEPS_S]})
    return Marks({row.step_s: row.reached for row in rows if row.reached is not None}, rows[0].now)


def begin(database: Database, now: datetime) -> dict[int, datetime]:
    """Return the marks; without any, begin with the present hour, so that no longer slot is partial."""
    found = marks(database).reached
    if len(found) < len(STEPS_S):
        database.fetch(BEGIN, {"steps": [*STEPS_S], "at": floored(now, HOUR_S)})
        found = marks(database).reached
    return found


def kept(rollup_days: float) -> list[dict[str, int]]:
    """Return the parameters of PRUNES for each length of slots: its retention, and the length folded from it."""
    seconds = {**KEPT_S, HOUR_S: round(rollup_days * 86_400)}
    longer = dict(pairwise((*STEPS_S, HOUR_S)))
    return [{"step": step, "kept_s": seconds[step], "longer": longer[step]} for step in STEPS_S]


def advance(database: Database, endpoints: int, most: int = MAX_SLOTS) -> Iterator[int]:
    """Compute closed slots, up to `most` short slots and all slots that can be folded; yields the length of each slot.

    Ends early when another process computes them. Minutes are folded in each run, even if short slots are far behind:
    short slots are kept for hours only.
    """
    horizon = horizon_of_attempts(database)
    found = begin(database, horizon.now)
    if found[SHORT_S] < horizon.now - MAX_BEHIND:
        database.fetch(LEAVE_OUT, {"at": floored(horizon.now, HOUR_S), "count": len(STEPS_S)})
        found = marks(database).reached
    below = None
    for step in STEPS_S:
        closed = min(horizon.at, found[step] + most * timedelta(seconds=step)) if below is None else found[below]
        while (until := found[step] + timedelta(seconds=step)) <= closed:
            slot = {
                "step": step,
                "mark": step,
                "below": below,
                "since": found[step],
                "until": until,
                "endpoints": endpoints,
            }
            (row,) = database.fetch(FILL_EMPTY if below is None else FOLD, slot)
            if below is None and row.held and not row.moved:
                (row,) = database.fetch(FILL, slot)
            if not row.moved:
                return
            found[step] = until
            yield step
        below = step


def rebuild(database: Database, since: datetime, endpoints: int) -> Iterator[datetime]:
    """Compute whole hours again from the rows that are kept, from `since` to the mark; yields each hour.

    An hour is one transaction. Its minutes stay only as long as the chore would keep them.
    """
    found = marks(database).reached
    hour, until = floored(since + timedelta(seconds=HOUR_S, microseconds=-1), HOUR_S), found.get(HOUR_S, since)
    while hour < until:
        has_minutes = hour >= until - timedelta(seconds=KEPT_S[MINUTE_S])
        database.transact(partial(_rebuild_hour, hour, endpoints, has_minutes=has_minutes))
        yield hour
        hour += timedelta(seconds=HOUR_S)


def _rebuild_hour(hour: datetime, endpoints: int, connection: Connection, *, has_minutes: bool) -> None:
    end, minute = hour + timedelta(seconds=HOUR_S), timedelta(seconds=MINUTE_S)
    params: dict[str, Any] = {"endpoints": endpoints, "since": hour, "until": end, "below": MINUTE_S}

    def clear(step: int) -> None:
        for each in (CLEAR, CLEAR_FAILURES):
            connection.execute(each, params | {"step": step})

    # Marks of their own; the lock on their rows lets one process at a time rebuild.
    connection.execute(MARK, {"steps": [-MINUTE_S, -HOUR_S], "at": hour})
    clear(HOUR_S)
    clear(MINUTE_S)
    for number in range(HOUR_S // MINUTE_S):
        at = hour + number * minute
        connection.execute(FILL, params | {"step": MINUTE_S, "mark": -MINUTE_S, "since": at, "until": at + minute})
    connection.execute(FOLD, params | {"step": HOUR_S, "mark": -HOUR_S})
    if not has_minutes:
        clear(MINUTE_S)
