"""Dramatiq's GroupCallbacks and rate limiters over ExecutionsLimiterBackend, in real processes."""

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import dramatiq
import pytest

from app.kernel.db import Database
from tests.acceptance.actors.conftest import Trial, User, sending, trial_of, wait_for_actors
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def user(shared_user: User, shared_database: Database) -> User:
    """A user with a worker, a scheduler and two processes of actors."""
    shared_user.stack.web()
    shared_user.stack.scheduler()
    shared_user.worker()
    for _ in range(2):
        shared_user.process(module="group_tasks")
    wait_for_actors(shared_database, "member", "done", "alone")
    return shared_user


@pytest.fixture
def running(user: User, shared_database: Database) -> Trial:
    return trial_of(user, shared_database)


@pytest.fixture
def group_tasks(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    with sending(user, monkeypatch, "group_tasks") as module:
        yield module
        module.limits.close()


def run_group(tasks: Any, words: list[str]) -> None:
    group = dramatiq.group([tasks.member.message(word) for word in words])
    group.add_completion_callback(tasks.done.message("all"))
    group.run()


def test_callback_of_a_group_runs_once_after_its_last_member(running: Trial, group_tasks: Any) -> None:
    words = [str(number) for number in range(40)]
    run_group(group_tasks, words)
    eventually(lambda: running.statuses() == {"SUCCESS": 41})
    assert sorted(running.lines()[:-1]) == sorted(f"member {word}" for word in words)
    assert running.lines()[-1] == "done all"


def test_limiter_lets_one_of_all_processes_run(running: Trial, group_tasks: Any) -> None:
    for number in range(20):
        group_tasks.alone.send(str(number))
    eventually(lambda: running.statuses() == {"SUCCESS": 20})
    turns = [line.split() for line in running.lines()]
    assert len(turns) == 40
    assert all(first[1] == second[1] for first, second in list(pairwise(turns))[::2])


def test_member_whose_process_is_killed_after_it_has_counted_counts_once(
    user: User, running: Trial, group_tasks: Any
) -> None:
    """Otherwise its second run would run the callback before the last member."""
    run_group(group_tasks, ["kill", "other", "wait"])
    eventually(lambda: "member other" in running.lines() and group_tasks.KILLED.exists())
    user.process(module="group_tasks")  # a command of Dramatiq ends with its killed process
    eventually(lambda: running.statuses() == {"SUCCESS": 2, "RUNNING": 1}, what="the second run")
    assert running.lines().count("member kill") == 2
    group_tasks.RELEASED.touch()
    eventually(lambda: running.statuses() == {"SUCCESS": 4})
    assert [line for line in running.lines() if line in {"member wait", "done all"}] == ["member wait", "done all"]
