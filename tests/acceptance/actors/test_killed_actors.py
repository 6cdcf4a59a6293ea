"""Kills of the processes of a user while actors run, beside one worker that lives on."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from app.dev.process.child import family
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import IfRunning, cancel_executions
from app.queue.executions.manual_retry import retry_execution
from tests.acceptance.actors.conftest import Trial, User, trial_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


UNFINISHED = text("SELECT execution_id FROM executions WHERE completed_at IS NULL")


@pytest.fixture(scope="module")
def user(shared_user: User) -> User:
    """A user with a worker and the API; each test starts the processes that it needs."""
    shared_user.stack.web()
    shared_user.worker()
    return shared_user


@pytest.fixture
def trial(user: User, shared_database: Database) -> Iterator[Trial]:
    """The test since its start; no process and no message stays after its end."""
    yield trial_of(user, shared_database)
    user.kill_processes()
    left = [row.execution_id for row in shared_database.fetch(UNFINISHED)]
    shared_database.transact(
        lambda connection: cancel_executions(connection, left, if_running=IfRunning.ABORT, actor=None)
    )
    eventually(lambda: not shared_database.fetch(UNFINISHED), what="the end of all executions")


def errors_of(trial: Trial) -> list[str]:
    found = text(
        "SELECT error->>'type' AS type FROM attempts JOIN executions AS e USING (execution_id) "
        "WHERE error IS NOT NULL AND e.created_at >= :began ORDER BY attempt_number"
    )
    return [row.type for row in trial.database.fetch(found, {"began": trial.began})]


def kill_runner(master: int) -> None:
    """Kill the process of a `dramatiq` command that runs actors, but not its master."""
    for child in psutil.Process(master).children(recursive=True):
        if any("dramatiq" in word for word in child.cmdline()) and child.num_threads() > 3:
            child.kill()


def test_execution_of_a_killed_process_runs_in_another(user: User, tasks: Any, trial: Trial, tmp_path: Path) -> None:
    victim = user.process()
    word = str(tmp_path / "go")
    eventually(lambda: trial.database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: trial.lines() == [f"hold {word}"])
    tasks.note.send("before the kill")
    eventually(lambda: len(trial.lines()) == 2)
    victim.kill()
    user.process()
    eventually(lambda: trial.lines().count(f"hold {word}") == 2, what="the second run")
    Path(word).touch()
    eventually(lambda: trial.statuses() == {"SUCCESS": 2})
    assert errors_of(trial) == ["PROCESS_LOST"]


def lose_process(trial: Trial, number: int) -> None:
    """Start a process, which the message kills as the `number`-th."""
    child = trial.user.process()
    eventually(lambda: len(trial.lines()) == number, what=f"run {number}")
    eventually(lambda: len(errors_of(trial)) == number, what=f"error {number}")
    child.kill()


def test_message_that_kills_its_process_three_times_is_a_dead_letter(tasks: Any, trial: Trial) -> None:
    tasks.kill.send("x")
    for number in range(1, 4):
        lose_process(trial, number)
    eventually(lambda: trial.statuses() == {"FAILED": 1})
    assert errors_of(trial) == ["PROCESS_LOST", "PROCESS_LOST", "WORKER_LOST"]
    letters = text("SELECT error_type FROM dead_letters")
    found = trial.database.fetch
    eventually(lambda: [row.error_type for row in found(letters)] == ["WORKER_LOST"], what="the dead letter")
    (execution,) = trial.executions_of("kill")
    retry_execution(trial.database, execution.execution_id, actor=None)
    lose_process(trial, 4)
    assert errors_of(trial)[3:] == ["PROCESS_LOST"]


def test_message_in_advance_loses_no_attempt_with_its_process(
    user: User, tasks: Any, trial: Trial, tmp_path: Path
) -> None:
    victim = user.process(threads=1)
    word = str(tmp_path / "go")
    eventually(lambda: trial.database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: trial.lines() == [f"hold {word}"])
    tasks.note.send("next")
    eventually(lambda: trial.statuses() == {"RUNNING": 2}, what="the second message in the process, which has a thread")
    victim.kill()
    Path(word).touch()
    user.process(threads=1)
    eventually(lambda: trial.statuses() == {"SUCCESS": 2})
    assert errors_of(trial) == ["PROCESS_LOST"]
    assert [trial.executions_of(name)[0].attempt_count for name in ("hold", "note")] == [2, 1]


def test_process_that_ends_by_term_gives_its_messages_back(
    user: User, tasks: Any, trial: Trial, tmp_path: Path
) -> None:
    first = user.process(threads=1)
    word = str(tmp_path / "go")
    eventually(lambda: trial.database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: trial.lines() == [f"hold {word}"])
    tasks.note.send("next")
    first.send(signal.SIGTERM)
    Path(word).touch()
    assert first.wait(30) == 0
    user.process(threads=1)
    eventually(lambda: trial.statuses() == {"SUCCESS": 2})
    assert errors_of(trial) == []
    assert trial.lines().count("note next") == 1


def test_runner_alone_may_die(user: User, tasks: Any, trial: Trial) -> None:
    """Dramatiq's master ends with its process; the messages are not lost."""
    child = user.process()
    eventually(lambda: trial.database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'note'")))
    tasks.note.send("a")
    eventually(lambda: trial.lines() == ["note a"])
    kill_runner(child.pid)
    child.kill()
    tasks.note.send("b")
    user.process()
    eventually(lambda: trial.lines() == ["note a", "note b"])


def test_registry_shows_a_process_until_it_is_killed(user: User, tasks: Any, trial: Trial) -> None:
    api = user.stack.api
    eventually(lambda: not api.get("/actors?is_offered=true")["items"], what="the end of earlier offers")
    victim = user.process()
    eventually(lambda: "note" in {each["actor"] for each in api.get("/actors?is_offered=true")["items"]})
    (offer,) = api.get("/actors/note")["processes"]
    assert offer["pid"] in family(victim.pid)
    assert {each["actor"] for each in api.get(f"/workers/{offer['worker_id']}/actors")["items"]} >= {"note", "hold"}
    victim.kill()
    eventually(lambda: api.get("/actors/note")["process_count"] == 0)
    tasks.note.send("nobody")
    (execution,) = trial.executions_of("note")
    explained = api.get(f"/executions/{execution.execution_id}/explain")
    assert (explained["reason"], explained["details"]["actor"]) == ("NO_PROCESS", "note")
