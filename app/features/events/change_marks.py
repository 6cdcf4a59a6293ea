"""Marks of changes: small values that differ after a change, by a name for the kind of change.

The console refreshes the parts of its pages that show changed kinds. Each mark is the end of an index or a small table,
so one statement a second costs the same in an empty and in a full database.
"""

from collections import defaultdict
from collections.abc import Mapping, Set

from app.kernel.db import Database
from app.kernel.sql import statement

MAX_LETTERS = 200  # counted, so that a resolved letter changes the mark
MAX_BULK_JOBS = 20
MAX_ACTOR_PROCESSES = 2_000  # of any age: no index has the newest first

READ = statement(
    "change_marks.read",
    """
    SELECT id AS name, CAST(revision AS TEXT) AS mark FROM catalog_revision
    UNION ALL (SELECT 'audit', audit_id FROM audit_log ORDER BY occurred_at DESC, audit_id DESC LIMIT 1)
    UNION ALL (SELECT 'breakers', event_id FROM breaker_events ORDER BY occurred_at DESC, event_id DESC LIMIT 1)
    UNION ALL (SELECT 'executions', CAST(created_at AS TEXT) FROM attempts ORDER BY created_at DESC LIMIT 1)
    UNION ALL (SELECT 'executions', event_id FROM execution_events ORDER BY occurred_at DESC, event_id DESC LIMIT 1)
    UNION ALL (SELECT 'executions', job_id FROM jobs ORDER BY created_at DESC, job_id DESC LIMIT 1)
    UNION ALL (SELECT 'jobs', job_id FROM jobs ORDER BY created_at DESC, job_id DESC LIMIT 1)
    UNION ALL (SELECT 'jobs', CAST(ended_at AS TEXT) FROM jobs WHERE ended_at IS NOT NULL
                ORDER BY ended_at DESC, job_id DESC LIMIT 1)
    UNION ALL (SELECT 'letters', letter_id FROM dead_letters WHERE resolved_at IS NULL
                ORDER BY failed_at DESC, letter_id DESC LIMIT 1)
    UNION ALL (SELECT 'letters', CAST(count(*) AS TEXT) FROM (
                SELECT letter_id FROM dead_letters WHERE resolved_at IS NULL
                 ORDER BY failed_at DESC, letter_id DESC LIMIT {letters}) AS open)
    UNION ALL (SELECT 'rollups', CAST(max(reached) AS TEXT) FROM rollup_marks)
    UNION ALL (SELECT 'walks', concat_ws(' ', redrive_id, status, CAST(redriven + refused AS TEXT)) FROM redrives
                ORDER BY created_at DESC, redrive_id DESC LIMIT {bulk_jobs})
    UNION ALL (SELECT 'walks', concat_ws(' ', operation_id, status, CAST(changed + refused AS TEXT))
                 FROM bulk_operations
                ORDER BY created_at DESC, operation_id DESC LIMIT {bulk_jobs})
    UNION ALL (SELECT 'workers', concat_ws(' ', worker_id, status, CASE WHEN lease_expires_at <= now() THEN 'x' END)
                 FROM workers)
    UNION ALL (SELECT 'workers', concat_ws(' ', CAST(count(*) AS TEXT), CAST(max(connected_at) AS TEXT),
                                           CAST(max(left_at) AS TEXT)) FROM (
                SELECT connected_at, left_at FROM actor_processes
                 ORDER BY worker_id, session_id LIMIT {actor_processes}) AS connected)
    UNION ALL (SELECT 'workflows', workflow_id FROM workflows ORDER BY created_at DESC, workflow_id DESC LIMIT 1)
    """,
    letters=MAX_LETTERS,
    bulk_jobs=MAX_BULK_JOBS,
    actor_processes=MAX_ACTOR_PROCESSES,
)

Marks = Mapping[str, Set[str]]
"""Values by kind of change."""


def read(database: Database) -> Marks:
    """Read the marks of all kinds."""
    found = defaultdict[str, set[str]](set)
    for row in database.fetch(READ):
        found[row.name].add(row.mark)
    return found


def changed(before: Marks, after: Marks) -> list[str]:
    """Return the kinds whose marks differ, by name."""
    nothing: Set[str] = frozenset()
    return sorted(name for name in {*before, *after} if before.get(name, nothing) != after.get(name, nothing))
