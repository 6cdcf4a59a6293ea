"""Attempts from both places: rows of `attempts`, and successes, which are the rows of their executions.

A success without an error writes no row in `attempts`, because its execution holds the same values: that row was a
seventh of the work of PostgreSQL for a completion. Earlier releases wrote it, so readers accept both. The id of such an
attempt is made from the id of its execution.

Failed attempts, and errors, are in `attempts` only: their readers need no other table.
"""

from sqlalchemy import column, text

from schema import tables

SUCCESS_ID = "'att_' || substr(execution_id, 6)"  # instead of exec_
IS_SUCCESS = "recorded_at IS NOT NULL"
_SHARED = "status, worker_id, started_at, completed_at, duration_ms, output"
_TEXT = f"""
      SELECT attempt_id, execution_id, attempt_number, {_SHARED}, error, led_to, created_at, due_at
        FROM attempts
      UNION ALL
      SELECT {SUCCESS_ID}, execution_id, attempt_count, {_SHARED}, CAST(NULL AS JSONB), CAST(NULL AS TEXT), recorded_at,
             run_at FROM executions WHERE {IS_SUCCESS}"""  # noqa: S608 - constants of this module

ALL_ATTEMPTS = f"({_TEXT})"
"""All attempts, for the FROM of a statement with a condition on `execution_id`: one index range of each table.

CockroachDB passes no condition of a join into it.
"""

_COLUMNS = (column(each.name, each.type) for each in tables.attempts.c if each.name != "crdb_region")
all_attempts = text(_TEXT).columns(*_COLUMNS).subquery("tried")
"""The same for queries."""
