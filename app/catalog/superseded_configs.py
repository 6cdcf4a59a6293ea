"""Superseded configs: values that were replaced or deleted, for executions that began before.

An execution stores the catalog revision of its first claim. It uses the first value of a config that was superseded
after that revision, or else the present value.
"""

from typing import Any

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.formats import compact_json
from app.kernel.function_types import Stopping
from app.kernel.sql import statement

KEEP = statement(
    "superseded_configs.keep",
    """
    INSERT INTO superseded_configs (name, superseded_by, values_json)
    VALUES (:name, :superseded_by, CAST(:values AS JSONB))
    """,
)
AS_OF = statement(
    "superseded_configs.as_of",
    """
    SELECT c.values_json FROM (
      SELECT s.values_json, s.superseded_by FROM superseded_configs AS s
       WHERE s.name = :name AND s.superseded_by > CAST(:revision AS BIGINT)
      UNION ALL
      SELECT p.values_json, CAST(NULL AS BIGINT) FROM configs AS p WHERE p.name = :name) AS c
     ORDER BY c.superseded_by NULLS LAST LIMIT 1
    """,
)
# A claim takes seconds at most, so only stored executions can need values that were superseded an hour ago.
EXPIRING = statement(
    "superseded_configs.expiring",
    """
    SELECT max(superseded_by) AS newest FROM superseded_configs WHERE superseded_at < now() - INTERVAL '1 hour'
    """,
)
OLDEST_IN_USE = statement(
    "superseded_configs.oldest_in_use",
    """
    WITH page AS MATERIALIZED (
      SELECT job_id, execution_id, config_revision FROM executions
       WHERE completed_at IS NULL
         AND (job_id, execution_id) > (CAST(:after_job AS TEXT), CAST(:after_execution AS TEXT))
       ORDER BY job_id, execution_id LIMIT :limit)
    SELECT p.job_id, p.execution_id, (SELECT min(config_revision) FROM page) AS oldest,
           (SELECT count(*) FROM page) AS seen
      FROM page AS p ORDER BY p.job_id DESC, p.execution_id DESC LIMIT 1
    """,
)
PRUNE = deletion(
    "superseded_configs.prune",
    "superseded_configs",
    ["name", "superseded_by"],
    "superseded_by <= CAST(:up_to AS BIGINT)",
)


def keep(connection: Connection, name: str, superseded_by: int, values: Any) -> None:
    """Keep the values of a config, in the transaction that replaces or deletes them under a new revision."""
    connection.execute(KEEP, {"name": name, "superseded_by": superseded_by, "values": compact_json(values)})


def needless_up_to(database: Database, stopping: Stopping, *, page: int) -> int | None:
    """Return the newest revision whose superseded values no unfinished execution needs; None if unknown.

    Reads the unfinished executions, in pages of `page`, only if superseded values exist.
    """
    up_to: int | None = database.fetch(EXPIRING)[0].newest
    params = {"after_job": "", "after_execution": "", "limit": page}
    while up_to is not None and not stopping():
        row = next(iter(database.fetch(OLDEST_IN_USE, params)), None)
        if row is not None and row.oldest is not None:
            up_to = min(up_to, row.oldest)
        if row is None or row.seen < page:
            return up_to
        params |= {"after_job": row.job_id, "after_execution": row.execution_id}
    return None
