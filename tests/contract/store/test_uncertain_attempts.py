"""Uncertain deliveries: attempts that failed and may have been delivered, by their own index."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.db.chunked_scan import ChunkedRead
from app.kernel.db.paging import PageRequest
from app.queue.reading.uncertain_attempts import UncertainFilter, page_of_uncertain
from schema.states import ExecutionStatus
from tests import rows
from tests.waiting import HUNG_SECONDS

ALL = UncertainFilter()
PATIENT = ChunkedRead(seconds=HUNG_SECONDS)


@pytest.fixture
def uncertain(database: Database) -> list[str]:
    """Executions with an uncertain attempt each, the oldest first; the third is of another endpoint."""
    rows.add_endpoint(database, "other")
    found = rows.add_executions(database, 2, status="QUEUED")
    found += rows.add_executions(database, endpoint="other")
    (certain,) = rows.add_executions(database)
    errors = [{"type": "TIMEOUT", "may_have_been_delivered": True}, None, {"type": "WORKER_LOST"}]
    for execution_id, error in zip(found, errors, strict=True):
        add(database, execution_id, error)
    add(database, certain, {"type": "HTTP_ERROR", "may_have_been_delivered": False})
    rows.add_attempt(database, certain, 2, "SUCCESS", output={})
    return found


def add(database: Database, execution_id: str, error: dict[str, object] | None) -> None:
    rows.add_attempt(database, execution_id, 1, "FAILED", **({} if error is None else {"error": error}))
    database.fetch(
        text("UPDATE attempts SET attempt_id = 'att_' || execution_id WHERE execution_id = :id"), {"id": execution_id}
    )


def executions_in(database: Database, wanted: UncertainFilter) -> list[str]:
    return [each.execution_id for each in page_of_uncertain(database, wanted, PageRequest(50), PATIENT).items]


def test_attempts_that_may_have_been_delivered_are_listed_newest_first(
    database: Database, uncertain: list[str]
) -> None:
    assert executions_in(database, ALL) == uncertain[::-1]
    assert executions_in(database, UncertainFilter(endpoint="other")) == uncertain[2:]
    assert executions_in(database, UncertainFilter(error_type="TIMEOUT")) == uncertain[:1]
    assert executions_in(database, UncertainFilter(worker_id="nobody")) == []
    now = rows.database_now(database)
    assert executions_in(database, UncertainFilter(created_before=now - timedelta(hours=1))) == []
    assert executions_in(database, UncertainFilter(created_after=now - timedelta(hours=1))) == uncertain[::-1]


def test_pages_follow_each_other_without_gaps(database: Database, uncertain: list[str]) -> None:
    found, request = list[str](), PageRequest(2)
    while True:
        page = page_of_uncertain(database, ALL, request, PATIENT)
        found += [each.execution_id for each in page.items]
        if page.next is None:
            break
        request = PageRequest(2, page.next)
    assert found == uncertain[::-1]


def test_it_tells_what_has_followed(database: Database, uncertain: list[str]) -> None:
    database.fetch(
        text("UPDATE executions SET status = 'RETRYING', max_attempts = 5, attempt_count = 3 WHERE execution_id = :id"),
        {"id": uncertain[0]},
    )
    (found,) = page_of_uncertain(database, UncertainFilter(error_type="TIMEOUT"), PageRequest(), PATIENT).items
    assert (found.execution_status, found.later_attempts) == (ExecutionStatus.RETRYING, 2)


@pytest.mark.postgresql_only
def test_it_reads_only_uncertain_attempts_with_any_statistics(database: Database, uncertain: list[str]) -> None:
    predicate = "SELECT pg_get_expr(indpred, indrelid) AS condition FROM pg_index WHERE indexrelid = to_regclass(:name)"
    (found,) = database.fetch(text(predicate), {"name": "idx_attempts_uncertain"})
    assert "may_have_been_delivered" in found.condition
    plan = database.fetch(
        text(
            "EXPLAIN SELECT attempt_id FROM attempts WHERE attempts.status = 'FAILED' "
            "AND COALESCE(attempts.error ->> 'may_have_been_delivered', 'true') = 'true' "
            "AND (created_at, attempt_id) < (now(), '') ORDER BY created_at DESC, attempt_id DESC LIMIT 50"
        )
    )
    assert any("idx_attempts_uncertain" in row[0] for row in plan), plan
