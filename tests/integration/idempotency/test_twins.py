"""Two concurrent requests with one Idempotency-Key, and keyed requests of several transactions."""

import threading
from typing import Any

import pytest
from sqlalchemy import Connection, text
from werkzeug.test import TestResponse

from app.kernel.db import Database
from app.queue.executions import on_hold
from app.queue.jobs.job_queries import LOCK
from tests import many_open, rows
from tests.integration.client import Api
from tests.integration.idempotency.keyed_requests import is_replay, send
from tests.integration.registered import created, cron, interval, register
from tests.waiting import eventually

WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
OPEN = on_hold.BATCH * 2 + 1


@pytest.mark.postgresql_only
def test_concurrent_requests_with_one_key_have_one_effect_and_one_answer(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    answers: list[TestResponse] = []
    requests = [
        threading.Thread(target=lambda: answers.append(send(api, f"/jobs/{job_id}/run", None))) for _ in range(2)
    ]
    with database.engine.begin() as holder:
        holder.execute(LOCK, {"job_id": job_id})
        for request in requests:
            request.start()
        # The first request waits for the lock of the job, the second for the row of the key.
        eventually(lambda: database.fetch(WAITING)[0][0] == 2, what="the waits of both requests")
    for request in requests:
        request.join(30)
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].data == answers[1].data
    assert sorted(map(is_replay, answers)) == [False, True]
    assert rows.statuses(database) == {"QUEUED": 1}


@pytest.fixture
def job_id(api: Api, database: Database) -> str:
    """Create a job with more waiting executions than one transaction changes."""
    register(api)
    found: str = created(api, interval())["job_id"]
    many_open.put(database, found, held=False, count=OPEN)
    return found


@pytest.mark.postgresql_only
@pytest.mark.parametrize(("verb", "done"), [("pause", ("PENDING", True)), ("cancel", ("CANCELLED", False))])
def test_pause_and_cancel_in_many_transactions_are_answered_when_complete(
    api: Api, database: Database, job_id: str, verb: str, done: Any
) -> None:
    first = send(api, f"/jobs/{job_id}/{verb}", None)
    assert states(database) == {done: OPEN}
    again = send(api, f"/jobs/{job_id}/{verb}", None)
    assert (again.status_code, again.data, is_replay(again)) == (200, first.data, True)
    assert commits(database) > 1


def test_resume_in_many_transactions_is_answered_when_complete(api: Api, database: Database, job_id: str) -> None:
    api.post(f"/jobs/{job_id}/pause")
    first = send(api, f"/jobs/{job_id}/resume", None)
    assert states(database) == {("QUEUED", False): OPEN}
    assert send(api, f"/jobs/{job_id}/resume", None).data == first.data


def test_repeated_request_completes_interrupted_work(
    api: Api, database: Database, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr("app.queue.jobs.job_pause.on_hold.hold", failing_at_the_second_batch())
        assert send(api, f"/jobs/{job_id}/pause", None).status_code == 500
    assert states(database) == {("PENDING", True): on_hold.BATCH, ("QUEUED", False): OPEN - on_hold.BATCH}
    again = send(api, f"/jobs/{job_id}/pause", None)
    assert (again.status_code, is_replay(again)) == (200, False)
    assert states(database) == {("PENDING", True): OPEN}
    assert is_replay(send(api, f"/jobs/{job_id}/pause", None))


def failing_at_the_second_batch() -> Any:
    hold = on_hold.hold

    def fail(connection: Connection, job_id: str, actor: str | None, after: str = "") -> str | None:
        if after:  # the first batch may run again
            raise RuntimeError("cut off")
        return hold(connection, job_id, actor)

    return fail


def states(database: Database) -> dict[tuple[str, bool], int]:
    query = "SELECT status, on_hold, count(*) AS number FROM executions GROUP BY status, on_hold"
    return {(row.status, row.on_hold): row.number for row in database.fetch(text(query))}


def commits(database: Database) -> int:
    """Count the transactions that wrote events, by the transaction id (xmin) of each row."""
    return int(database.fetch(text("SELECT count(DISTINCT CAST(xmin AS TEXT)) FROM execution_events"))[0][0])
