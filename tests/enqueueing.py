"""Settings of the SQL functions that create jobs, as a process of the API writes them."""

from app.kernel.db import Database
from app.queue.jobs import enqueue_settings


def adopt_settings(database: Database, **own: int) -> None:
    given = {"shards": 1, "look_ahead_ms": 5000, "max_inline_endpoints": 100, "stuck_timeout_ms": 300_000}
    enqueue_settings.adopt(database, **(given | own))
