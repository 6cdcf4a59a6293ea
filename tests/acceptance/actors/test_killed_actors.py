"""Kills: the process of a user, the worker, the database, while actors run."""

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from app.dev.process.child import family
from app.kernel.db import Database
from app.queue.executions.manual_retry import retry_execution
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.acceptance.limits import SHORT_LEASE
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(autouse=True)
def _settings_of_the_api(database: Database) -> None:
    """The settings that a process of the API writes; actors and workers need nothing else of it."""
    adopt_settings(database)


def errors_of(database: Database) -> list[str]:
    found = text("SELECT error->>'type' AS type FROM attempts WHERE error IS NOT NULL ORDER BY attempt_number")
    return [row.type for row in database.fetch(found)]


def kill_runner(master: int) -> None:
    """Kill the process of a `dramatiq` command that runs actors, but not its master."""
    for child in psutil.Process(master).children(recursive=True):
        if any("dramatiq" in word for word in child.cmdline()) and child.num_threads() > 3:
            child.kill()


def test_execution_of_a_killed_process_runs_in_another(
    user: User, tasks: Any, database: Database, tmp_path: Path
) -> None:
    user.worker()
    victim = user.process()
    word = str(tmp_path / "go")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    tasks.note.send("before the kill")
    eventually(lambda: len(user.lines()) == 2)
    victim.kill()
    user.process()
    eventually(lambda: user.lines().count(f"hold {word}") == 2, what="the second run")
    Path(word).touch()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert errors_of(database) == ["PROCESS_LOST"]


def lose_process(user: User, database: Database, number: int) -> None:
    """Start a process, which the message kills as the `number`-th."""
    child = user.process()
    eventually(lambda: len(user.lines()) == number, what=f"run {number}")
    eventually(lambda: len(errors_of(database)) == number, what=f"error {number}")
    child.kill()


def test_message_that_kills_its_process_three_times_is_a_dead_letter(
    user: User, tasks: Any, database: Database
) -> None:
    user.worker()
    eventually(lambda: any(user.sockets.iterdir()))
    tasks.kill.send("x")
    for number in range(1, 4):
        lose_process(user, database, number)
    eventually(lambda: rows.statuses(database) == {"FAILED": 1})
    assert errors_of(database) == ["PROCESS_LOST", "PROCESS_LOST", "WORKER_LOST"]
    letters = text("SELECT error_type FROM dead_letters")
    eventually(lambda: [row.error_type for row in database.fetch(letters)] == ["WORKER_LOST"], what="the dead letter")
    (execution,) = database.fetch(text("SELECT execution_id FROM executions"))
    retry_execution(database, execution.execution_id, actor=None)
    lose_process(user, database, 4)
    assert errors_of(database)[3:] == ["PROCESS_LOST"]


def test_message_in_advance_loses_no_attempt_with_its_process(
    user: User, tasks: Any, database: Database, tmp_path: Path
) -> None:
    user.worker()
    victim = user.process(threads=1)
    word = str(tmp_path / "go")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    tasks.note.send("next")
    running = text("SELECT 1 FROM executions WHERE status = 'RUNNING'")
    eventually(lambda: len(database.fetch(running)) == 2, what="the second message in the process, which has a thread")
    victim.kill()
    Path(word).touch()
    user.process(threads=1)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert errors_of(database) == ["PROCESS_LOST"]
    found = text("SELECT endpoint, attempt_count AS attempts FROM executions")
    assert {row.endpoint: row.attempts for row in database.fetch(found)} == {"hold": 2, "note": 1}


def test_late_outcome_after_the_death_of_the_worker_is_refused(
    user: User, tasks: Any, database: Database, tmp_path: Path
) -> None:
    first = user.worker(**SHORT_LEASE)
    user.stack.scheduler(**SHORT_LEASE)
    runner = user.process(threads=2)
    word = str(tmp_path / "go")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    first.kill()
    user.worker(**SHORT_LEASE)
    eventually(lambda: user.lines().count(f"hold {word}") == 2, what="the second run")
    Path(word).touch()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    assert errors_of(database) == ["WORKER_LOST"]
    eventually(lambda: "came too late and changes nothing" in runner.log.read_text(), what="the refusal")
    assert user.lines().count(f"held {word}") == 2


def test_process_that_ends_by_term_gives_its_messages_back(
    user: User, tasks: Any, database: Database, tmp_path: Path
) -> None:
    user.worker()
    first = user.process(threads=1)
    word = str(tmp_path / "go")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    tasks.note.send("next")
    first.send(signal.SIGTERM)
    Path(word).touch()
    assert first.wait(30) == 0
    user.process(threads=1)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert errors_of(database) == []
    assert user.lines().count("note next") == 1


def test_runner_alone_may_die(user: User, tasks: Any, database: Database) -> None:
    """Dramatiq's master ends with its process; the messages are not lost."""
    user.worker()
    child = user.process()
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'note'")))
    tasks.note.send("a")
    eventually(lambda: user.lines() == ["note a"])
    kill_runner(child.pid)
    child.kill()
    tasks.note.send("b")
    user.process()
    eventually(lambda: user.lines() == ["note a", "note b"])


def test_registry_shows_a_process_until_it_is_killed(user: User, tasks: Any, database: Database) -> None:
    user.stack.web()
    user.worker()
    victim = user.process()
    api = user.stack.api
    eventually(lambda: "note" in {each["actor"] for each in api.get("/actors?is_offered=true")["items"]})
    (offer,) = api.get("/actors/note")["processes"]
    assert offer["pid"] in family(victim.pid)
    assert {each["actor"] for each in api.get(f"/workers/{offer['worker_id']}/actors")["items"]} >= {"note", "hold"}
    victim.kill()
    eventually(lambda: api.get("/actors/note")["process_count"] == 0)
    tasks.note.send("nobody")
    (execution,) = database.fetch(text("SELECT execution_id FROM executions"))
    explained = api.get(f"/executions/{execution.execution_id}/explain")
    assert (explained["reason"], explained["details"]["actor"]) == ("NO_PROCESS", "note")
