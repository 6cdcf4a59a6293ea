"""Stalled bulk jobs: running redrives and bulk operations without a scheduler or without progress."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.bulk.bulk_job_runner import TURN_SECONDS
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, Finding

_LATE_SECONDS = 60  # besides one turn of each other bulk job
_WATCHED_SECONDS, _LOOK_SECONDS = 5.0, 0.2
# A bulk job that progresses is held at most twice at one cursor: by the turn that reached it and by the next turn.
_HOLDS = 3
_MOST_NAMED = 5

UNDER_WAY = statement(
    "doctor.walks_under_way",
    """
    (SELECT 'redrive' AS noun, redrive_id AS id, reached_at, reached_id, held_until,
            CAST(EXTRACT(EPOCH FROM now() - COALESCE(held_until, created_at)) AS BIGINT) AS left_for,
            COALESCE(held_until > now(), false) AS is_held
       FROM redrives WHERE status = 'RUNNING' ORDER BY redrive_id LIMIT :most)
    UNION ALL
    (SELECT 'bulk operation', operation_id, reached_at, reached_id, held_until,
            CAST(EXTRACT(EPOCH FROM now() - COALESCE(held_until, created_at)) AS BIGINT),
            COALESCE(held_until > now(), false)
       FROM bulk_operations WHERE status = 'RUNNING' ORDER BY operation_id LIMIT :most)
    """,
)


def standing(context: ChoreContext) -> Iterator[Finding]:
    """Find bulk jobs that are not paused and make no progress."""
    rows = _under_way(context.database)
    late = _LATE_SECONDS + len(rows) * TURN_SECONDS
    if left := [_name(row) for row in rows if row.left_for > late]:
        problem = f"no scheduler continues {_listed(left)}"
        yield Finding("bulk_jobs", problem, "start a scheduler (`python -m app.scheduler`), or look into its log")
    if any(row.is_held for row in rows) and (stuck := _stuck(context.database)):
        problem = f"schedulers try to continue {_listed(stuck)} and fail"
        fix = "their log says why (`cannot go on now`); what is not needed any more can be stopped (`POST …/stop`)"
        yield Finding("bulk_jobs", problem, fix)


def _stuck(database: Database) -> list[str]:
    """Poll for a while, and return the bulk jobs that were held repeatedly without moving their cursors."""
    seen = defaultdict[str, dict[object, set[object]]](lambda: defaultdict(set))
    until = time.monotonic() + _WATCHED_SECONDS
    while time.monotonic() < until:
        for row in _under_way(database):
            if row.is_held:
                seen[_name(row)][row.reached_at, row.reached_id].add(row.held_until)
        if all(len(places) > 1 or _is_in_vain(places) for places in seen.values()):
            break
        time.sleep(_LOOK_SECONDS)
    return sorted(name for name, places in seen.items() if _is_in_vain(places))


def _is_in_vain(places: dict[object, set[object]]) -> bool:
    return any(len(holds) >= _HOLDS for holds in places.values())


def _under_way(database: Database) -> Sequence[Row[Any]]:
    return database.fetch(UNDER_WAY, {"most": MAX_COUNTED})


def _name(row: Row[Any]) -> str:
    return f"the {row.noun} {row.id}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} others" if names[_MOST_NAMED:] else "")
