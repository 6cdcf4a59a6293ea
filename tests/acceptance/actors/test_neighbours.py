"""Middleware of other projects over TaskExecutorBroker: dramatiq-abort and periodiq, as they are on PyPI."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import pytest
from sqlalchemy import text

from app.dev.process.child import Child
from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import HERE, User
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

PROJECTS = ["dramatiq-abort==1.2.1", "periodiq==0.14.0", "pendulum==3.3.0"]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the projects, apart from the environment of the tests."""
    folder = tmp_path_factory.mktemp("projects")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder)]
    if subprocess.run([sys.executable, "-m", "pip", "install", *options, *PROJECTS], check=False).returncode:
        if os.environ.get("CI"):
            pytest.fail("pip cannot install dramatiq-abort and periodiq")
        pytest.skip("pip cannot install dramatiq-abort and periodiq")
    return folder


@pytest.fixture
def abort_tasks(
    user: User, projects: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The module in this process; processes of the user find the projects, and the events of `abort`."""
    adopt_settings(database)
    events = tmp_path / "events"
    events.mkdir()
    user.env["EVENTS"] = str(events)
    user.env["PYTHONPATH"] += os.pathsep + str(projects)
    for name in ("BROKER_URL", "EFFECTS", "EVENTS", "TASK_EXECUTOR_ACTORS"):
        monkeypatch.setenv(name, user.env[name])
    monkeypatch.syspath_prepend(str(projects))
    monkeypatch.syspath_prepend(str(HERE))
    found = importlib.import_module("abort_tasks")
    yield found
    found.broker.close()
    sys.modules.pop("abort_tasks", None)
    dramatiq.set_broker(None)


def executions(database: Database, endpoint: str) -> list[Any]:
    found = """SELECT e.status, e.output, (SELECT a.error FROM attempts AS a WHERE a.execution_id = e.execution_id
                 ORDER BY a.attempt_number DESC LIMIT 1) AS error
                 FROM executions AS e WHERE e.endpoint = :endpoint ORDER BY e.created_at"""
    return list(database.fetch(text(found), {"endpoint": endpoint}))


def test_abort_of_dramatiq_abort_ends_a_message_that_runs_and_one_that_waits(
    user: User, abort_tasks: Any, database: Database
) -> None:
    from dramatiq_abort import abort

    user.worker()
    user.process(module="abort_tasks", threads=1)
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    running = abort_tasks.hold.send("runs")
    eventually(lambda: user.lines() == ["hold runs"])
    waiting = abort_tasks.hold.send("waits")
    abort(waiting.message_id)
    abort(running.message_id)
    eventually(lambda: rows.statuses(database) == {"FAILED": 1, "SUCCESS": 1})
    aborted, skipped = executions(database, "hold")
    assert (aborted.error["type"], aborted.error["category"]) == ("dramatiq_abort.abort_manager.Abort", "INTERRUPTED")
    assert skipped.output == {"skipped": True}
    assert user.lines() == ["hold runs"]


def test_periodiq_sends_the_messages_of_its_ticks(
    user: User, abort_tasks: Any, projects: Path, database: Database, tmp_path: Path
) -> None:
    user.worker()
    user.process(module="abort_tasks")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'tick'")))
    command = [sys.executable, str(projects / "bin" / "periodiq"), "abort_tasks"]
    ticking = Child("periodiq", command, log=tmp_path / "periodiq.log", env=user.env, cwd=tmp_path)
    ticking.start()
    try:
        eventually(lambda: "tick" in user.lines(), timeout=90, what="a tick of periodiq")
    finally:
        ticking.kill()
    eventually(lambda: {each.status for each in executions(database, "tick")} == {"SUCCESS"})
    late = abort_tasks.tick.send_with_options(scheduled_at="2020-01-01T00:00:00+00:00")
    assert late.options["scheduled_at"]
    eventually(lambda: executions(database, "tick")[-1].output == {"skipped": True})
