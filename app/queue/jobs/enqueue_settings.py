"""Settings of the SQL function `te_enqueue`, which creates a job in the caller's own transaction.

The function (schema/functions/te_enqueue.sql) inserts the same rows as app.queue.jobs.job_insertion;
tests/contract/store/test_enqueue.py compares both.
"""

from app.kernel.db import Database
from app.kernel.sql import statement

ADOPT = statement(
    "jobs.adopt_enqueue_settings",
    """
    INSERT INTO enqueue_settings AS s (id, shards, look_ahead_ms)
    VALUES ('enqueue', :shards, :look_ahead_ms)
    ON CONFLICT (id) DO UPDATE
      SET shards = excluded.shards, look_ahead_ms = excluded.look_ahead_ms, updated_at = now()
    WHERE s.shards <> excluded.shards OR s.look_ahead_ms <> excluded.look_ahead_ms
    RETURNING s.id
    """,
)


def adopt(database: Database, *, shards: int, look_ahead_ms: int) -> None:
    """Store the settings of this process; if processes differ, the last to start wins."""
    database.fetch(ADOPT, {"shards": shards, "look_ahead_ms": look_ahead_ms})
