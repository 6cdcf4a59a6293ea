"""Settings of the SQL functions `te_enqueue` and `te_send`, which create a job in the caller's own transaction.

The functions (schema/functions) insert the same rows as app.queue.jobs.job_insertion and app.catalog.endpoints.inline;
tests/contract/store/test_enqueue.py and test_send.py compare both.
"""

from app.kernel.db import Database
from app.kernel.sql import statement

ADOPT = statement(
    "jobs.adopt_enqueue_settings",
    """
    INSERT INTO enqueue_settings AS s (id, shards, look_ahead_ms, max_inline_endpoints, stuck_timeout_ms)
    VALUES ('enqueue', :shards, :look_ahead_ms, :max_inline_endpoints, :stuck_timeout_ms)
    ON CONFLICT (id) DO UPDATE
      SET shards = excluded.shards, look_ahead_ms = excluded.look_ahead_ms,
          max_inline_endpoints = excluded.max_inline_endpoints, stuck_timeout_ms = excluded.stuck_timeout_ms,
          updated_at = now()
    WHERE s.shards <> excluded.shards OR s.look_ahead_ms <> excluded.look_ahead_ms
       OR s.max_inline_endpoints IS DISTINCT FROM excluded.max_inline_endpoints
       OR s.stuck_timeout_ms IS DISTINCT FROM excluded.stuck_timeout_ms
    RETURNING s.id
    """,
)


def adopt(
    database: Database, *, shards: int, look_ahead_ms: int, max_inline_endpoints: int, stuck_timeout_ms: int
) -> None:
    """Store the settings of this process; if processes differ, the last to start wins."""
    database.fetch(
        ADOPT,
        {
            "shards": shards,
            "look_ahead_ms": look_ahead_ms,
            "max_inline_endpoints": max_inline_endpoints,
            "stuck_timeout_ms": stuck_timeout_ms,
        },
    )
