"""Kills of a process at each stage of a message, from its arrival to its acknowledgement."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import dramatiq
import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import HERE, User, trial_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def user(shared_user: User, shared_database: Database) -> User:
    """A user with a worker and the API; each test starts the processes that it needs."""
    shared_user.stack.web()
    shared_user.worker()
    shared_user.process(module="stage_tasks")
    names = text("SELECT name FROM endpoints WHERE name IN ('pass-stage', 'follow')")
    eventually(lambda: len(shared_database.fetch(names)) == 2, what="the registration")
    shared_user.kill_processes()
    return shared_user


@pytest.fixture
def stage_tasks(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The user's module in this process, which sends."""
    for name in ("BROKER_URL", "EFFECTS", "TASK_EXECUTOR_ACTORS"):
        monkeypatch.setenv(name, user.env[name])
    monkeypatch.syspath_prepend(str(HERE))
    module = importlib.import_module("stage_tasks")
    yield module
    module.broker.close()
    del sys.modules["stage_tasks"]
    dramatiq.set_broker(None)


@pytest.mark.parametrize("stage", ["before_process_message", "run", "after_process_message", "before_ack", "after_ack"])
def test_kill_loses_nothing_and_each_repeated_run_is_recorded(
    user: User, shared_database: Database, stage_tasks: ModuleType, stage: str
) -> None:
    """The next message of the pipeline follows once, whatever run has ended the first."""
    trial = trial_of(user, shared_database)
    (
        stage_tasks.pass_stage.message(stage) | stage_tasks.follow.message_with_options(args=(stage,), pipe_ignore=True)
    ).run()
    first = user.process(module="stage_tasks")
    eventually(lambda: not first.is_running, what="the kill")
    user.process(module="stage_tasks")
    eventually(lambda: trial.statuses() == {"SUCCESS": 2})
    (execution,) = trial.executions_of("pass-stage")
    errors = [each.error["type"] for each in rows.attempts(shared_database, execution.execution_id) if each.error]
    assert errors == ["PROCESS_LOST"] * (execution.attempt_count - 1)
    lines = trial.lines()
    assert lines.count(f"after {stage}") == 1
    assert 1 <= lines.count(stage) <= execution.attempt_count
    user.kill_processes()
