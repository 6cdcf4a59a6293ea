"""Plans of the statements that count a slot: they read rows of the slot by indexes, with any table statistics."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.features.rollups.rollup_slots import SHORT_S, floored
from app.features.rollups.rollup_statements import FILL, FILL_EMPTY
from app.kernel.db import Database
from tests import rows
from tests.endings import begin_rollups
from tests.plans import plans, single_connection

__all__ = ["single_connection"]  # a fixture

HOURS = 1.25  # at 5,000 executions, so that each slot of a few seconds has several
# Of 5,000 executions, most succeeded at their first attempt.
ENDED = """
    UPDATE executions AS e SET status = 'SUCCESS', worker_id = 'w', attempt_count = 1, started_at = u.at,
           completed_at = u.at, duration_ms = 5, recorded_at = CASE WHEN u.n % 5 > 0 THEN u.at END
      FROM (SELECT execution_id, row_number() OVER (ORDER BY execution_id) AS n,
                   now() - random() * INTERVAL '{hours} hours' AS at FROM executions) AS u
     WHERE e.execution_id = u.execution_id"""
ATTEMPTS = """
    INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at, created_at, led_to, error)
    SELECT 'att_' || execution_id, execution_id, 1, 'FAILED', started_at, started_at, 'RETRYING', '{{"type": "X"}}'
      FROM executions WHERE recorded_at IS NULL"""
EVENTS = """
    INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, reason, occurred_at)
    SELECT 'evt_' || execution_id, execution_id, 'QUEUED', 'CANCELLED', 0, 'CANCELLED', started_at
      FROM executions WHERE recorded_at IS NULL"""


@pytest.mark.postgresql_only
@pytest.mark.parametrize("is_analysed", [False, True])
def test_slot_is_counted_by_indexes_alone(database: Database, single_connection: Database, is_analysed: bool) -> None:
    for table in ("executions", "attempts", "execution_events"):
        database.fetch(text(f"ALTER TABLE {table} SET (autovacuum_enabled = false)"))
    rows.add_executions(database, 5_000)
    for change in (ENDED, ATTEMPTS, EVENTS):
        database.fetch(text(change.format(hours=HOURS)))
    if is_analysed:
        database.fetch(text("ANALYZE"))
    since = begin_rollups(database, 60)
    until = since + timedelta(seconds=SHORT_S)
    assert since == floored(since, SHORT_S)
    params = {"mark": SHORT_S, "step": SHORT_S, "since": since, "until": until, "endpoints": 200}
    (row,) = single_connection.fetch(FILL_EMPTY, params)
    assert (row.held, row.moved) == (1, 0), "the slot is not empty"
    filled = "\n".join(line[0] for line in database.fetch(text("EXPLAIN " + FILL.text), params))
    for plan in (filled, plans(single_connection)["rollups_fill_empty"]):
        assert not re.search(r"Seq Scan on (executions|attempts|execution_events)", plan), plan
        found = set(re.findall(r"(?:using|Bitmap Index Scan on) (idx_\w+)", plan))
        assert found == {"idx_attempts_created", "idx_executions_recorded", "idx_execution_events_time"}, plan
