"""Actors of a user in real processes: `dramatiq user_tasks` over the kit, a worker, PostgreSQL."""

import time
from pathlib import Path
from typing import Any

import dramatiq
import psycopg
import pytest
from dramatiq.results import ResultFailure
from sqlalchemy import create_engine, text
from task_executor_client import Client
from task_executor_client.workflows import chain, job, parallel
from task_executor_dramatiq import UnknownActorError

from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from schema.url import database_url as parse_url
from tests import rows
from tests.acceptance.actors.conftest import Trial, User, trial_of, wait_for_actors
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def user(shared_user: User, shared_database: Database) -> User:
    """A user with a web process, a worker, a scheduler and one process of actors, which has registered them."""
    shared_user.stack.web()
    shared_user.stack.scheduler()
    shared_user.worker()
    shared_user.process()
    wait_for_actors(shared_database, "note", "other")
    return shared_user


@pytest.fixture
def running(user: User, shared_database: Database) -> Trial:
    return trial_of(user, shared_database)


def test_messages_run_once_and_are_executions(running: Trial, tasks: Any) -> None:
    message = tasks.note.send("a", 1, named=True)
    eventually(lambda: running.lines() == ["note a 1 named=True"])
    eventually(lambda: running.statuses() == {"SUCCESS": 1})
    (execution,) = running.executions_of("note")
    assert (execution.idempotency_key, execution.queue, execution.attempt_count) == (message.message_id, "actor", 1)


def test_delay_is_kept_by_the_service(running: Trial, tasks: Any) -> None:
    tasks.note.send_with_options(args=("late",), delay=300)
    tasks.note.send("now")
    eventually(lambda: running.lines() == ["note now", "note late"])
    eventually(lambda: running.statuses() == {"SUCCESS": 2})
    late = next(each for each in running.executions_of("note") if each.run_at > each.created_at)
    assert late.started_at >= late.run_at


def test_retries_of_dramatiq_are_attempts_of_one_execution(running: Trial, tasks: Any) -> None:
    tasks.succeed_at_third.send("x")
    eventually(lambda: running.statuses() == {"SUCCESS": 1})
    (execution,) = running.executions_of("succeed-at-third")
    assert execution.attempt_count == 3
    errors = [each.error for each in rows.attempts(running.database, execution.execution_id)[:2]]
    assert [error["type"] for error in errors] == ["ValueError", "ValueError"]
    assert [error["options"]["retries"] for error in errors] == [1, 2]
    assert "succeed_at_third" in errors[0]["traceback"]


def test_exhausted_retries_become_one_dead_letter_with_its_cause(running: Trial, tasks: Any) -> None:
    tasks.always_fail.send("y")
    letters = text("SELECT error_type FROM dead_letters WHERE endpoint = 'always-fail'")
    eventually(lambda: [row.error_type for row in running.database.fetch(letters)] == ["ValueError"])
    assert running.lines() == ["fail y"] * 3
    (execution,) = running.executions_of("always-fail")
    errors = [each.error for each in rows.attempts(running.database, execution.execution_id)]
    assert [each["category"] for each in errors] == ["RETRYABLE", "RETRYABLE", "FATAL"]
    assert (errors[-1]["retryable"], errors[-1]["causes"]) == (False, ["KeyError: 'inner'"])


def test_expected_exception_is_not_retried(running: Trial, tasks: Any) -> None:
    tasks.throw.send("z")
    eventually(lambda: running.statuses() == {"FAILED": 1})
    assert running.lines() == ["throw z"]
    (execution,) = running.executions_of("throw")
    error = rows.attempts(running.database, execution.execution_id)[0].error
    assert (error["type"], error["category"]) == ("user_tasks.NotAgainError", "EXPECTED")


def test_ended_message_runs_again_by_a_retry_and_not_by_another_send(
    running: Trial, tasks: Any, shared_api: Api
) -> None:
    message = tasks.throw.send("again")
    eventually(lambda: running.statuses() == {"FAILED": 1})
    tasks.broker.enqueue(message)
    (execution,) = running.executions_of("throw")
    assert (execution.status, execution.attempt_count) == ("FAILED", 1)
    shared_api.post(f"/executions/{execution.execution_id}/retry", {})
    eventually(lambda: running.lines() == ["throw again"] * 2)
    eventually(lambda: running.statuses() == {"FAILED": 1})
    assert len(rows.attempts(running.database, execution.execution_id)) == 2


def test_dead_letters_of_an_actor_are_redriven(running: Trial, tasks: Any, shared_api: Api, tmp_path: Path) -> None:
    needed = tmp_path / "needed"
    for _ in range(3):
        tasks.need.send(str(needed))
    letters = text("SELECT count(*) AS n FROM dead_letters WHERE endpoint = 'need'")
    eventually(lambda: running.database.fetch(letters)[0].n == 3)
    needed.touch()
    redrive = shared_api.post("/redrives", {"wanted": {"endpoint": "need"}})
    eventually(lambda: running.statuses() == {"SUCCESS": 3})
    assert [each.attempt_count for each in running.executions_of("need")] == [2, 2, 2]
    assert running.lines() == ["need"] * 6
    eventually(lambda: shared_api.get(f"/redrives/{redrive['redrive_id']}")["status"] == "DONE")


def test_actor_waits_while_its_endpoint_is_paused_and_another_actor_is_its_callback(
    running: Trial, tasks: Any, shared_api: Api
) -> None:
    shared_api.post("/endpoints/add/pause", {})
    body = {"endpoint": "add", "trigger": "IMMEDIATE", "idempotency_key": "paused", "input": {"first": 1, "second": 2}}
    shared_api.post("/jobs", {**body, "callbacks": {"on_success": "note"}})
    tasks.other.send("meanwhile")
    eventually(lambda: running.lines() == ["other meanwhile"])
    (execution,) = running.executions_of("add")
    assert shared_api.get(f"/executions/{execution.execution_id}/explain")["reason"] == "ENDPOINT_PAUSED"
    shared_api.post("/endpoints/add/resume", {})
    eventually(lambda: running.statuses() == {"SUCCESS": 3})
    assert running.lines()[1] == "add 1 2"
    assert "event=on_success" in running.lines()[2]
    assert "output={'body': 3}" in running.lines()[2]


def test_results_and_exceptions_are_read_by_the_sender(running: Trial, tasks: Any) -> None:
    assert tasks.add.send(1, 2).get_result(block=True) == 3
    with pytest.raises(ResultFailure, match="NotAgainError: no result"):
        tasks.fail_with_result.send().get_result(block=True)


def test_celery_style_returns_results(running: Trial, tasks: Any) -> None:
    assert tasks.multiply.delay(3, 4).get() == 12
    assert tasks.multiply.apply_async([5], {"second": 6}, countdown=0.05).get(timeout=30) == 30


def test_group_and_pipeline_run_to_their_results(running: Trial, tasks: Any) -> None:
    group = dramatiq.group([tasks.add.message(1, number) for number in range(4)]).run()
    assert list(group.get_results(block=True)) == [1, 2, 3, 4]
    pipe = (tasks.add.message(1, 2) | tasks.add.message(3) | tasks.add.message(4)).run()
    assert pipe.get_result(block=True) == 10


def test_next_stage_is_written_with_the_end_of_the_stage_before(running: Trial, tasks: Any) -> None:
    pipe = (tasks.add.message(1, 2) | tasks.add.message(3)).run()
    assert pipe.get_result(block=True) == 6
    first, second = running.executions_of("add")
    assert second.created_at == first.recorded_at


def test_job_of_the_api_starts_an_actor_with_json_arguments(running: Trial, tasks: Any, shared_api: Api) -> None:
    first = {"endpoint": "note", "trigger": "IMMEDIATE", "idempotency_key": "1", "input": {"word": "b"}}
    shared_api.post("/jobs", first)
    eventually(lambda: running.lines() == ["note word=b"])
    shared_api.post("/jobs", {**first, "idempotency_key": "2", "input": {"args": ["c"], "kwargs": {"n": 1}}})
    eventually(lambda: running.lines()[1:] == ["note c n=1"])


def test_workflow_of_the_client_has_actors_as_nodes(running: Trial, shared_stack: Stack, shared_api: Api) -> None:
    steps = chain(
        parallel(*(job(name, endpoint="add", input={"args": [1, n]}) for name, n in (("left", 1), ("right", 2)))),
        job(
            "sum",
            endpoint="add",
            input={"first": "{{parents.left.output.body}}", "second": "{{parents.right.output.body}}"},
        ),
        job("mark", endpoint="note", input={"sum": "{{parents.sum.output.body}}"}),
    )
    with Client(shared_stack.url, shared_api.key) as te:
        workflow = te.workflows.create(name="sums", nodes=steps.nodes)
        eventually(lambda: te.workflows.get(workflow["workflow_id"])["status"] == "SUCCEEDED")
    assert running.lines()[2:] == ["add 2 3", "note sum=5"]


def test_other_queue_and_priority_are_registered(running: Trial, tasks: Any) -> None:
    tasks.other.send("d")
    eventually(lambda: running.lines() == ["other d"])
    (endpoint,) = running.database.fetch(text("SELECT spec, priority FROM endpoints WHERE name = 'other'"))
    assert (endpoint.spec["queue"], endpoint.priority) == ("Other.Queue", 118)
    (execution,) = running.executions_of("other")
    assert execution.priority == 118


def test_message_of_a_transaction_exists_if_it_commits(running: Trial, tasks: Any, module_database_url: str) -> None:
    with psycopg.connect(module_database_url) as connection, tasks.broker.transaction(connection):
        tasks.note.send("rolled back")
        connection.rollback()
        tasks.note.send("committed")
    with create_engine(parse_url(module_database_url)).connect() as connection, tasks.broker.transaction(connection):
        tasks.note.send("by SQLAlchemy")
        connection.commit()
    eventually(lambda: running.lines() == ["note committed", "note by SQLAlchemy"])


def test_eta_is_a_delay_and_an_invalid_one_is_now(running: Trial, tasks: Any, caplog: pytest.LogCaptureFixture) -> None:
    eta = round(time.time() * 1000) + 2_000
    for given in (None, "soon", eta):
        sent_at = time.time()
        tasks.broker.enqueue(tasks.note.message_with_options(args=(str(given),), eta=given))
    sending_ms = (time.time() - sent_at) * 1000
    eventually(lambda: len(running.lines()) == 3)
    assert running.lines()[2] == f"note {eta}"
    assert set(running.lines()[:2]) == {"note None", "note soon"}
    assert "Invalid eta value" in caplog.text
    late = max(running.executions_of("note"), key=lambda each: each.run_at)
    # The delay until the instant begins when the database stores the message.
    assert -5 < late.run_at.timestamp() * 1000 - eta < sending_ms + 5


def test_message_of_an_unknown_actor_is_refused(running: Trial, tasks: Any) -> None:
    message = tasks.note.message("x").copy(actor_name="nowhere")
    with pytest.raises(UnknownActorError, match="no endpoint named 'nowhere'"):
        tasks.broker.enqueue(message)


def test_cron_of_an_actor_runs_it(running: Trial, tasks: Any) -> None:
    """The job exists by the registration alone; a run of it at once takes the place of its next tick."""
    found = text("SELECT job_id, cron_timezone FROM jobs WHERE endpoint = 'report' AND cron_expression = '0 9 * * *'")
    (job,) = eventually(lambda: running.database.fetch(found), what="the job")
    assert job.cron_timezone == "Europe/Berlin"
    running.database.fetch(
        text("UPDATE jobs SET cron_next_run_at = now() WHERE job_id = :job_id"), {"job_id": job.job_id}
    )
    eventually(lambda: running.lines() == ["report"])
