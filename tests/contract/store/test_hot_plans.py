"""Plans of frequent statements: rows with known keys are found by their keys, with any statistics."""

import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import TextClause, text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.claim import CLAIM_1
from app.queue.claiming.release import RELEASE
from app.queue.executions.completion import COMPLETE, HELD
from app.queue.executions.promotion import PROMOTE
from tests import rows
from tests.claiming import asking

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = ["exec_1", "exec_2"]
TWICE = {"ids": KEYS, "attempts": [1, 1]}
HOT: list[tuple[TextClause, dict[str, object]]] = [
    (CLAIM_1, asking("w", 50)),
    (PROMOTE, {"shard": 0, "limit": 500, "ahead_ms": 5000, "since": EPOCH}),
    (
        COMPLETE,
        {
            **TWICE,
            "worker": "w",
            "statuses": ["SUCCESS"] * 2,
            "delays": [0, 0],
            "outputs": [None, None],
            "errors": [None, None],
            "started": [NOW, NOW],
            "ended_ago_ms": [0, 0],
            "durations": [1, 1],
            "attempt_ids": ["att_1", "att_2"],
            "max_ages": [None, None],
            "dues": [None, None],
            "log_ids": ["log_1"],
            "log_executions": ["exec_1"],
            "log_levels": ["INFO"],
            "log_messages": ["m"],
            "cancelled": "",
        },
    ),
    (HELD, {**TWICE, "worker": "w"}),
    (
        RELEASE,
        {
            **TWICE,
            "worker": "w",
            "claimed": [NOW, NOW],
            "defer_ms": [0, 0],
            "noted": [True, False],
            "reasons": ["HANDED_BACK"] * 2,
            "claim_events": ["evt_1", "evt_2"],
            "return_events": ["evt_3", "evt_4"],
            "counted": ["exec_1"],
            "gates": ["target"],
            "slots": [1],
            "buckets": [1],
        },
    ),
]


@pytest.fixture
def with_stale_statistics(database: Database) -> Database:
    """A database whose statistics show no waiting or running execution."""
    rows.add_executions(database, 5_000)
    database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now()"))
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE executions, jobs"))
    return database


@pytest.mark.postgresql_only
def test_rows_with_known_keys_are_found_by_their_keys_with_stale_statistics(with_stale_statistics: Database) -> None:
    for statement, params in HOT:
        plan = [row[0] for row in with_stale_statistics.fetch(text("EXPLAIN " + statement.text), params)]
        changed = [line for line in plan if re.search(r"(?<!Update) on executions e\b", line)]
        assert len(changed) == 1, "\n".join(plan)
        assert "using pk_executions" in changed[0], "\n".join(plan)
