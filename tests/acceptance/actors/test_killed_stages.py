"""Kills of a process at each stage of a message, from its arrival to its acknowledgement."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User, sending, trial_of, wait_for_actors
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def user(shared_user: User, shared_database: Database) -> User:
    """A user with a worker and the API; each test starts the processes that it needs."""
    shared_user.stack.web()
    shared_user.worker()
    shared_user.process(module="stage_tasks")
    wait_for_actors(shared_database, "pass-stage", "follow")
    shared_user.kill_processes()
    return shared_user


@pytest.fixture
def stage_tasks(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    with sending(user, monkeypatch, "stage_tasks") as module:
        yield module


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
