"""The filter of executions: a list and a bulk operation find the same executions by each of its conditions."""

from dataclasses import fields, replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.bulk.bulk_job import BEGINNING
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import next_selected, page_of_executions
from schema.states import ExecutionStatus
from tests import rows
from tests.waiting import HUNG_SECONDS

HOUR = timedelta(hours=1)
ALL = list(ExecutionStatus)
TIMEOUT = {"type": "TIMEOUT", "may_have_been_delivered": True}
REFUSED = {"type": "HTTP_ERROR", "may_have_been_delivered": False}


@pytest.fixture
def known(database: Database) -> dict[str, str]:
    """Executions by what is special in them."""
    rows.add_endpoint(database, "other")
    names = ["plain", "named", "uncertain", "refused", "late", "far", "held", "running"]
    found = dict(zip(names, rows.add_executions(database, len(names), max_attempts=3), strict=True))
    (found["other"],) = rows.add_executions(database, endpoint="other")

    def change(name: str, columns: str, table: str = "executions") -> None:
        where = "execution_id = :id"
        if table == "jobs":
            where = "job_id = (SELECT job_id FROM executions WHERE execution_id = :id)"
        database.fetch(text(f"UPDATE {table} SET {columns} WHERE {where}"), {"id": found[name]})

    change("named", """name = 'report', labels = '{"team": "a"}', idempotency_key = 'order%1'""", "jobs")
    change("held", "queue = 'bulk', limit_key = '=acme'")
    change("far", "scheduled_at = now() + INTERVAL '1 day', run_at = now() + INTERVAL '1 day', status = 'PENDING'")
    change("late", "run_at = now() - INTERVAL '1 minute'")
    for name, error in (("uncertain", TIMEOUT), ("refused", REFUSED)):
        change(name, "status = 'FAILED', attempt_count = 1, completed_at = now(), started_at = now(), worker_id = 'w'")
        add_attempt(database, found[name], error)
    change("running", "status = 'RUNNING', attempt_count = 2, started_at = run_at, worker_id = 'v'")
    add_attempt(database, found["running"], REFUSED)
    return found


def add_attempt(database: Database, execution_id: str, error: dict[str, object]) -> None:
    query = text("UPDATE attempts SET attempt_id = attempt_id || execution_id")
    rows.add_attempt(database, execution_id, 1, "FAILED", error=error)
    database.fetch(query)


def conditions(database: Database) -> list[tuple[ExecutionFilter, set[str]]]:
    now: datetime = rows.database_now(database)
    return [
        (ExecutionFilter(statuses=[ExecutionStatus.RUNNING, ExecutionStatus.PENDING]), {"running", "far"}),
        (ExecutionFilter(endpoint="other"), {"other"}),
        (ExecutionFilter(queue="bulk"), {"held"}),
        (ExecutionFilter(limit_key="acme"), {"held"}),
        (ExecutionFilter(worker_id="v"), {"running"}),
        (ExecutionFilter(name="report"), {"named"}),
        (ExecutionFilter(labels={"team": "a"}), {"named"}),
        (ExecutionFilter(labels={"team": "b"}), set()),
        (ExecutionFilter(idempotency_key="order%1"), {"named"}),
        (ExecutionFilter(idempotency_key="order%1", endpoint="target"), {"named"}),
        (ExecutionFilter(idempotency_key="order%1", endpoint="other"), set()),
        (ExecutionFilter(idempotency_key_prefix="order%"), {"named"}),
        (ExecutionFilter(idempotency_key_prefix="orderx"), set()),
        (ExecutionFilter(error_type="TIMEOUT"), {"uncertain"}),
        (ExecutionFilter(error_type="HTTP_ERROR"), {"refused", "running"}),
        (ExecutionFilter(error_type="HTTP_ERROR", statuses=[ExecutionStatus.RUNNING]), {"running"}),
        (ExecutionFilter(uncertain=True), {"uncertain"}),
        (ExecutionFilter(uncertain=False, statuses=[ExecutionStatus.FAILED]), {"refused"}),
        (ExecutionFilter(late_over_ms=30_000), {"late"}),
        (ExecutionFilter(scheduled_after=now + HOUR), {"far"}),
        (ExecutionFilter(scheduled_before=now + HOUR, statuses=[ExecutionStatus.PENDING]), set()),
        (ExecutionFilter(ended_before=now + HOUR), {"uncertain", "refused"}),
        (ExecutionFilter(created_before=now - HOUR), set()),
        (ExecutionFilter(created_after=now - HOUR, name="report"), {"named"}),
    ]


def chosen_conditions(known: dict[str, str]) -> list[tuple[ExecutionFilter, set[str]]]:
    some = ExecutionFilter(execution_ids=[known["plain"], known["refused"], known["other"], "exec_nobody"])
    return [
        (some, {"plain", "refused", "other"}),
        (replace(some, statuses=[ExecutionStatus.FAILED]), {"refused"}),
        (replace(some, endpoint="other"), {"other"}),
        (replace(some, error_type="HTTP_ERROR"), {"refused"}),
        (replace(some, name="report"), set()),
    ]


def listed(database: Database, wanted: ExecutionFilter) -> set[str]:
    page = page_of_executions(database, wanted, PageRequest(50), seconds=HUNG_SECONDS)
    assert page.next is None
    return {each.execution_id for each in page.items}


def selected(database: Database, wanted: ExecutionFilter) -> set[str]:
    found = next_selected(database, wanted, BEGINNING, 50)
    return {position.key for position, is_wanted in found if is_wanted}


def test_list_and_selection_find_the_same_executions_by_each_condition(
    database: Database, known: dict[str, str]
) -> None:
    tried = set[str]()
    for wanted, names in conditions(database):
        ids = {known[name] for name in names}
        assert listed(database, wanted) == ids, wanted
        assert selected(database, wanted) == ids, wanted
        tried |= {each.name for each in fields(wanted) if getattr(wanted, each.name) not in (None, ())}
    for wanted, names in chosen_conditions(known):
        ids = {known[name] for name in names}
        assert listed(database, wanted) == selected(database, wanted) == ids, wanted
        tried |= {"execution_ids"}
    job_id = rows.job_of(database, known["plain"]).job_id
    of_job = ExecutionFilter(job_id=job_id)
    assert listed(database, of_job) == selected(database, of_job) == {known["plain"]}
    assert tried | {"job_id"} == {each.name for each in fields(ExecutionFilter)}


def test_conditions_are_combined(database: Database, known: dict[str, str]) -> None:
    both = ExecutionFilter(error_type="HTTP_ERROR", worker_id="w")
    assert listed(database, both) == selected(database, both) == {known["refused"]}
    assert listed(database, replace(both, uncertain=True)) == set()


def test_scan_for_rare_executions_is_cut_and_continues_at_its_cursor(database: Database) -> None:
    (rare,) = rows.add_executions(database)
    database.fetch(text("UPDATE executions SET limit_key = '=rare', created_at = now() - INTERVAL '1 hour'"))
    rows.add_executions(database, 30)
    wanted, request = ExecutionFilter(limit_key="rare"), PageRequest(5)
    pages = 0
    while True:
        page = page_of_executions(database, wanted, request, chunk=10, seconds=0)
        pages += 1
        if page.next is None:
            break
        assert page.items == [] or page.items[0].execution_id == rare
        request = request._replace(after=page.next)
    assert pages == 4
    assert [each.execution_id for each in page.items] == [rare]


def test_chosen_executions_are_read_in_pages_in_the_order_of_their_list(database: Database) -> None:
    ids = rows.add_executions(database, 5)
    database.fetch(
        text("UPDATE executions SET created_at = created_at - INTERVAL '1 hour' WHERE execution_id = :id"),
        {"id": ids[3]},
    )
    wanted = ExecutionFilter(execution_ids=ids[1:])
    whole = [each.execution_id for each in page_of_executions(database, ExecutionFilter(), PageRequest(9)).items]
    whole.remove(ids[0])
    found, request = list[str](), PageRequest(3)
    while True:
        page = page_of_executions(database, wanted, request)
        found += [each.execution_id for each in page.items]
        if page.next is None:
            break
        request = request._replace(after=page.next)
    assert found == whole
    upwards = next_selected(database, wanted, BEGINNING, 2)
    upwards += next_selected(database, wanted, upwards[-1][0], 9)
    assert [position.key for position, _ in upwards] == whole[::-1]
    hour_ago = rows.database_now(database) - HOUR / 2
    assert listed(database, replace(wanted, created_before=hour_ago)) == {ids[3]}
    assert selected(database, replace(wanted, created_after=hour_ago)) == {*whole} - {ids[3]}
