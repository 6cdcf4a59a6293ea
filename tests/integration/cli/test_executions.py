"""Commands of `flask executions`."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.cli.commands import actor
from app.cli.executions_tail import Follower
from app.kernel.db import Database
from app.queue.reading.execution_filter import ExecutionFilter
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import created, interval, one_shot, register
from tests.integration.statements import Statements

ROOT = Path(__file__).parents[3]
# A shell starts background jobs, such as a test run, with SIGINT ignored; this program restores the handler.
PROGRAM = (
    "import signal, flask.__main__; signal.signal(signal.SIGINT, signal.default_int_handler); flask.__main__.main()"
)


@pytest.fixture
def failed(api: Api, database: Database) -> str:
    """Create an execution that failed at its second attempt."""
    register(api, retry_policy={"max_attempts": 2})
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], "FAILED")
    database.fetch(text("UPDATE executions SET attempt_count = 2, max_attempts = 2"))
    execution_id: str = job["execution"]["execution_id"]
    for number in (1, 2):
        error = {"type": "HTTP_ERROR", "message": "answered \x1b[31m503", "may_have_been_delivered": True}
        rows.add_attempt(database, execution_id, number, "FAILED", error=error)
        rows.add_log(database, execution_id, number, "ERROR", attempt=number)
    return execution_id


def test_json_output_equals_the_answers_of_the_api(api: Api, cli: Cli, failed: str) -> None:
    assert cli.json("executions", "list", "--status", "failed") == {
        "items": api.get("/executions").json["items"],
        "more": False,
    }
    assert cli.json("executions", "list", "--status", "SUCCESS")["items"] == []
    path, shown = f"/executions/{failed}", cli.json("executions", "show", failed)
    assert shown == {
        "execution": api.get(path).json,
        "attempts": api.get(f"{path}/attempts").json["items"],
        "history": api.get(f"{path}/history").json,
    }
    assert cli.json("executions", "explain", failed) == api.get(f"{path}/explain").json
    for output in (cli.run("executions", "show", failed).stdout, cli.run("executions", "explain", failed).stdout):
        assert r"answered \x1b[31m503" in output
    assert "HTTP_ERROR" in cli.run("executions", "list").stdout


def test_retry_and_cancel_record_the_user_as_actor(cli: Cli, database: Database, failed: str) -> None:
    assert cli.json("executions", "retry", failed)["status"] == "QUEUED"
    cli.run("executions", "retry", failed, expect=4)
    cli.run("executions", "cancel", failed, expect=2)
    assert rows.execution(database, failed).status == "QUEUED"
    assert cli.json("executions", "cancel", failed, "--yes")["status"] == "CANCELLED"
    recorded = database.fetch(text("SELECT reason, actor FROM execution_events ORDER BY occurred_at"))
    assert [tuple(row) for row in recorded] == [("RETRIED_BY_HAND", actor().name), ("CANCELLED", actor().name)]
    for command in ("show", "explain", "retry", "tail"):
        assert "exec_0" in cli.run("executions", command, "exec_0", expect=3).stderr


def test_tail_of_one_execution_prints_its_events_and_exits_by_its_status(
    cli: Cli, database: Database, failed: str
) -> None:
    lines = [json.loads(line) for line in cli.run("executions", "tail", failed, "--json", expect=1).stdout.splitlines()]
    assert [line["to"] for line in lines if "to" in line][-1] == "FAILED"
    assert [line["message"] for line in lines if "message" in line] == ["line 1", "line 2"]
    database.fetch(text("UPDATE executions SET status = 'SUCCESS'"))
    cli.run("executions", "tail", failed)
    assert "either" in cli.run("executions", "tail", failed, "--status", "FAILED", expect=2).stderr


def test_ctrl_c_before_the_end_exits_with_an_error(
    api: Api, cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(api)
    waits = rows.add_tick(database, created(api, interval())["job_id"])
    monkeypatch.setattr("app.cli.executions_tail.print_json", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    cli.run("executions", "tail", waits, "--json", expect=1)


def test_follower_reports_each_change_once(api: Api, database: Database, statements: Statements) -> None:
    register(api)
    job = created(api, interval())
    waiting = rows.add_tick(database, job["job_id"], "RETRYING")
    follower = Follower(database, ExecutionFilter(endpoint="target"), timedelta(seconds=5))
    follower.begin()
    assert follower.poll() == []
    new = rows.add_tick(database, job["job_id"])
    gone = rows.add_tick(database, job["job_id"], "SUCCESS")
    assert changes(follower) == [(new, "QUEUED"), (gone, "QUEUED"), (gone, "SUCCESS")]
    rows.set_status(database, job["job_id"], "FAILED")
    statements.clear()
    assert sorted(changes(follower)) == sorted([(waiting, "FAILED"), (new, "FAILED")])
    assert len(statements.texts) == 2 + 2, "two reads, and a history for each change"
    assert changes(follower) == []


def test_follower_reports_the_changes_between_two_polls(api: Api, database: Database) -> None:
    register(api)
    follower = Follower(database, ExecutionFilter(), timedelta(seconds=5))
    follower.begin()
    job = created(api, one_shot("k"))
    execution = job["execution"]["execution_id"]
    rows.add_attempt(database, execution, 1, "SUCCESS")
    rows.set_status(database, job["job_id"], "SUCCESS")
    database.fetch(text("UPDATE executions SET attempt_count = 1"))
    assert changes(follower) == [(execution, "QUEUED"), (execution, "RUNNING"), (execution, "SUCCESS")]


def changes(follower: Follower) -> list[tuple[str, str]]:
    return [(each.execution.execution_id, each.step.after.value) for each in follower.poll()]


def test_tail_follows_until_ctrl_c(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    job = created(api, interval())
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--app", "app", "executions", "tail", "--every", "0.2"],
        cwd=ROOT,
        env=os.environ | {"TE_DATABASE_URL": cli.settings.database_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "Ctrl-C" in process.stderr.readline()
        run = rows.add_tick(database, job["job_id"])
        assert run in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
