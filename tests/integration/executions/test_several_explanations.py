"""POST /explain: the same as each GET …/explain, with one look at each line."""

from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.verdict import Verdict
from app.queue.reading.several_explanations import MAX_EXPLAINED, explain_several
from tests import rows
from tests.integration.client import Api, pointers, problem
from tests.integration.executions.worker import ERROR, WORKER, claim, end
from tests.integration.registered import register
from tests.integration.statements import Statements


@pytest.fixture
def mixed(api: Api, database: Database) -> list[str]:
    """Executions in all states, of several lines."""
    about: dict[str, Any] = {"host": "h", "pid": 1, "queues": ["http"], "capacity": 9, "lease_ms": 600_000}
    worker_lease.register(database, worker_id=WORKER, **about)
    register(api)
    register(api, "limited", limits={"max_in_flight": 1})
    register(api, "paused")
    failed, cancelled, running, *waiting = rows.add_executions(database, 6, max_attempts=3)
    rows.move_to_one_shard(database)
    end(database, claim(database), Verdict.fail(ERROR))
    api.post(f"/executions/{cancelled}/cancel")
    claim(database)
    limited = rows.add_executions(database, 4, endpoint="limited")
    held = rows.add_executions(database, 2, endpoint="paused")
    api.post("/endpoints/paused/pause")
    later = rows.add_executions(database, status="PENDING", due_in=timedelta(hours=1))
    bulk = rows.add_executions(database)
    database.fetch(text("UPDATE executions SET queue = 'bulk' WHERE execution_id = :id"), {"id": bulk[0]})
    rows.move_to_one_shard(database)
    database.fetch(text("UPDATE executions SET priority = 200 WHERE execution_id = :id"), {"id": waiting[-1]})
    return [failed, cancelled, running, *waiting, *limited, *held, *later, *bulk]


def test_each_explanation_equals_that_of_its_own_request(api: Api, mixed: list[str]) -> None:
    answer = api.post("/explain", {"executions": [*mixed, "exec_unknown"]}).json
    assert answer["left_out"] == ["exec_unknown"]
    assert [each.pop("execution_id") for each in answer["items"]] == mixed
    reasons = set()
    for execution_id, found in zip(mixed, answer["items"], strict=True):
        assert found == api.get(f"/executions/{execution_id}/explain").json
        reasons.add(found["reason"])
    assert len(reasons) >= 7, reasons


def test_a_page_in_one_line_takes_few_statements(api: Api, database: Database, statements: Statements) -> None:
    register(api, "limited", limits={"max_in_flight": 1})
    waiting = rows.add_executions(database, MAX_EXPLAINED, endpoint="limited")
    rows.move_to_one_shard(database)
    statements.clear()
    answer = api.post("/explain", {"executions": waiting}).json
    assert len(answer["items"]) == MAX_EXPLAINED
    few = len(statements.texts)
    statements.clear()
    api.post("/explain", {"executions": waiting[:1]})
    assert few == len(statements.texts) <= 8


def test_a_page_of_many_lines_takes_as_few_statements(api: Api, database: Database, statements: Statements) -> None:
    """The executions wait at limits of many endpoints; every second limit is reached."""
    about: dict[str, Any] = {"host": "h", "pid": 1, "queues": ["http"], "capacity": 9, "lease_ms": 600_000}
    worker_lease.register(database, worker_id=WORKER, **about)
    running = text(
        "UPDATE executions SET status = 'RUNNING', worker_id = :worker, started_at = now(), attempt_count = 1"
        " WHERE endpoint = :endpoint"
    )
    waiting = list[str]()
    for number in range(MAX_EXPLAINED // 2):
        name = f"e-{number}"
        register(api, name, limits={"max_in_flight": 1 + number % 2})
        rows.add_executions(database, endpoint=name)
        database.fetch(running, {"worker": WORKER, "endpoint": name})
        waiting += rows.add_executions(database, 2, endpoint=name)
    rows.move_to_one_shard(database)
    statements.clear()
    answer = api.post("/explain", {"executions": waiting}).json
    assert len(statements.texts) <= 8, statements.texts
    found = {each["execution_id"]: each["reason"] for each in answer["items"]}
    assert set(found.values()) == {"CONCURRENCY_LIMITED", "NEXT_IN_QUEUE", "BEHIND_OTHERS"}
    for each in waiting[:6]:
        assert found[each] == api.get(f"/executions/{each}/explain").json["reason"]


def test_executions_that_need_reads_after_the_time_are_left_out(
    database: Database, mixed: list[str], statements: Statements
) -> None:
    def explained(seconds: float) -> tuple[list[str], int]:
        """Return the explained executions and the number of lines read; each look at the clock lasts a second."""
        statements.clear()
        clock = partial(next, count())
        found = explain_several(database, mixed, reclaim_every=timedelta(0), reasons=[], seconds=seconds, clock=clock)
        return list(found), sum("row_number()" in each for each in statements.texts)

    _, _, running, *due, held, held_too, later, bulk = mixed
    assert explained(1) == ([running, held, held_too, later], 0)
    assert explained(2) == ([running, *due, held, held_too, later, bulk], 1)
    assert explained(3) == (mixed, 1)


def test_too_many_executions_are_refused(api: Api) -> None:
    answer = api.post("/explain", {"executions": ["exec_1"] * (MAX_EXPLAINED + 1)})
    assert pointers(problem(answer, 400, "INVALID_REQUEST")) == ["/executions"]
    assert api.post("/explain", {"executions": []}).status_code == 400
