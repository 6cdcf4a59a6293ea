"""What te_enqueue needs to know of the settings: the function that puts a job into its caller's own transaction.

Its text is in the revision that created it (schema/migrations/versions/*_te_enqueue.py): it inserts what
app.queue.jobs.job_insertion would, and tests/contract/store/test_enqueue.py compares the rows of both.
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
    """Store the settings of this process; of several that differ the one that started last counts."""
    database.fetch(ADOPT, {"shards": shards, "look_ahead_ms": look_ahead_ms})
