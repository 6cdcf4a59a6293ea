"""Deliveries of all endpoints in a window that ends now, from the longest slots that cover it, and in equal parts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.rollups import rollup_slots
from app.features.rollups.delivery_history import ALL, DeliveryCounts
from app.features.rollups.rollup_slots import HOUR_S, MINUTE_S, SHORT_S, floored
from app.features.rollups.rollup_statements import FIGURES
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.rollup_bounds import STEPS_S

PARTS = 12
# Longer slots for longer windows: each endpoint has some 200 rows in them at most.
_LONGEST = ((30 * 60, SHORT_S), (6 * 3600, MINUTE_S))
MAX_PIECES = PARTS + len(STEPS_S) - 1
# An index range for each piece, written out: in a join with the list of the pieces, the planner of PostgreSQL does not
# know how few rows each of them has, and reads the whole table.
_OF_PIECE = """
      SELECT CAST(:part_{number} AS BIGINT) AS part, r.* FROM delivery_rollups AS r
       WHERE r.step_s = CAST(:step_s_{number} AS BIGINT) AND r.slot >= CAST(:since_{number} AS TIMESTAMPTZ)
         AND r.slot < CAST(:until_{number} AS TIMESTAMPTZ)"""
OF_ENDPOINTS = statement(
    "rollups.of_endpoints",
    "SELECT endpoint, part, {figures} FROM ({pieces}) AS found GROUP BY endpoint, part",
    figures=", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in FIGURES),
    pieces=" UNION ALL".join(_OF_PIECE.format(number=number) for number in range(MAX_PIECES)),
)


class Piece(NamedTuple):
    """Slots of one length in a part of a window."""

    part: int
    step_s: int
    since: datetime
    until: datetime


_NO_PIECE = Piece(0, 0, EPOCH, EPOCH)


class WindowCounts(NamedTuple):
    """Deliveries of an endpoint in a window; `trend` counts its attempts, `failures` its failures, in PARTS parts."""

    counts: DeliveryCounts
    trend: Sequence[int]
    failures: Sequence[int]


class Window(NamedTuple):
    """Deliveries by endpoint; '' is the sum of all, '*' of endpoints without own rows. Empty if nobody counted."""

    since: datetime
    until: datetime
    endpoints: Mapping[str, WindowCounts]


def pieces(since: datetime, until: datetime, reached: Mapping[int, datetime]) -> list[Piece]:
    """Cover a window by computed slots, long slots first; each slot is in one piece."""
    seconds = (until - since).total_seconds()
    longest = next((step for most, step in _LONGEST if seconds <= most), HOUR_S)
    at, width = floored(since, longest), (until - since) / PARTS
    ends = [since + (number + 1) * width for number in range(PARTS - 1)]
    found: list[Piece] = []
    for step in reversed(STEPS_S[: STEPS_S.index(longest) + 1]):
        end = min(reached.get(step, at), until)
        for part, part_end in enumerate([*ends, until]):
            if at < (piece_end := min(part_end, end)):
                found.append(Piece(part, step, at, piece_end))
                at = piece_end
        at = max(at, end)
    return found


def of_endpoints(database: Database, window: timedelta) -> Window:
    """Read the deliveries of the last `window` by endpoint."""
    marks = rollup_slots.marks(database)
    covered = pieces(marks.now - window, marks.now, marks.reached)
    if not covered:
        return Window(marks.now - window, marks.now, {})
    params = dict[str, object]()
    for number, piece in enumerate([*covered, *[_NO_PIECE] * (MAX_PIECES - len(covered))]):
        params |= {f"{name}_{number}": value for name, value in piece._asdict().items()}
    found = defaultdict[str, list[Row[Any]]](list)
    for row in database.fetch(OF_ENDPOINTS, params):
        found[row.endpoint].append(row)
    endpoints = {endpoint: _counts(rows) for endpoint, rows in found.items()}
    return Window(covered[0].since, min(marks.reached[SHORT_S], marks.now), endpoints if ALL in endpoints else {})


def _counts(rows: Sequence[Row[Any]]) -> WindowCounts:
    trend, failures = [0] * PARTS, [0] * PARTS
    for row in rows:
        trend[row.part] += row.attempts or 0
        failures[row.part] += row.failed or 0
    return WindowCounts(DeliveryCounts.total(rows), trend, failures)
