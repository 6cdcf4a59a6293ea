"""Processes with actors on another machine, by the blocks of docs/how-to/actors-elsewhere.md: TLS and API keys."""

import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.acceptance.tls import certify
from tests.code_blocks import DOCS, blocks_of
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

KEY, WORKER, PROCESS = ([*shlex.split(text)] for _, text in blocks_of(DOCS / "how-to/actors-elsewhere.md"))
FILES = ("/etc/task-executor/worker.pem", "/etc/task-executor/worker.key", "/etc/ssl/own-ca.pem")
pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


class Elsewhere:
    """Workers that listen at one address with TLS, and processes that know this address only."""

    def __init__(self, user: User, database: Database, folder: Path) -> None:
        self._user, self._database = user, database
        self._pem, self._port = certify(folder / "worker.pem", "localhost"), free_port()

    def worker(self) -> Child:
        settings = self._exported(WORKER)
        del settings["TE_ACTORS_LISTEN"]  # the user has a directory of its own
        child = self._user.worker(**settings)
        self._user.stack.wait_for_line(child, f"listening for processes with actors at 0.0.0.0:{self._port}")
        return child

    def process(self, scope: str = KEY[-1]) -> Child:
        key = api_keys.create(self._database, "elsewhere", [scope], None)
        return self._user.process(BROKER_KEY=key, **self._exported(PROCESS))

    def _exported(self, words: list[str]) -> dict[str, str]:
        """Return the variables of a block, with the certificate and the port of this test."""
        mine = {"worker.example.com": "localhost", ":7420": f":{self._port}"}
        mine |= dict.fromkeys(FILES, str(self._pem))
        exported = dict(word.split("=", 1) for word in words if "=" in word)
        for theirs, own in mine.items():
            exported = {name: value.replace(theirs, own) for name, value in exported.items()}
        return exported


@pytest.fixture
def elsewhere(user: User, database: Database, tmp_path: Path) -> Elsewhere:
    adopt_settings(database)
    return Elsewhere(user, database, tmp_path)


def registered(database: Database) -> bool:
    return bool(database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'note'")))


def test_process_elsewhere_runs_actors_and_moves_to_another_worker(
    user: User, elsewhere: Elsewhere, tasks: Any, database: Database
) -> None:
    first = elsewhere.worker()
    process = elsewhere.process()
    eventually(lambda: registered(database))
    tasks.note.send("a")
    eventually(lambda: user.lines() == ["note a"])
    elsewhere.worker()  # at the same address, as another process of the command
    first.send(signal.SIGTERM)
    assert first.wait(60) == 0
    tasks.note.send("b")
    eventually(lambda: user.lines() == ["note a", "note b"])
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    process.send(signal.SIGTERM)
    assert process.wait(30) == 0


def test_execution_of_a_process_that_was_killed_elsewhere_runs_in_another(
    user: User, elsewhere: Elsewhere, tasks: Any, database: Database, tmp_path: Path
) -> None:
    elsewhere.worker()
    victim = elsewhere.process()
    word = str(tmp_path / "go")
    eventually(lambda: registered(database))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    victim.kill()
    elsewhere.process()
    eventually(lambda: user.lines().count(f"hold {word}") == 2, what="the second run")
    Path(word).touch()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})


def test_key_without_the_scope_runs_no_actor(user: User, elsewhere: Elsewhere, tasks: Any, database: Database) -> None:
    worker = elsewhere.worker()
    refused = elsewhere.process(Scope.JOBS_WRITE)
    user.stack.wait_for_line(worker, "lacks the scope 'actors:work'")
    eventually(lambda: "lacks the scope 'actors:work'" in refused.log.read_text())
    assert not registered(database)


def test_key_of_a_queue_runs_the_actors_of_this_queue_only(
    user: User, elsewhere: Elsewhere, tasks: Any, database: Database
) -> None:
    user.stack.web()
    elsewhere.worker()
    limited = elsewhere.process("actors:work:Other.*")
    told = "the API key 'elsewhere' has the scopes actors:work:Other.* only"
    eventually(lambda: f"note: The actor 'note' is of the queue 'default', but {told}" in read(limited))
    tasks.other.send("a")
    eventually(lambda: user.lines() == ["other a"])
    tasks.note.send("waits")  # this process registers it, as a user of the host
    api = user.stack.api
    (execution,) = database.fetch(text("SELECT execution_id FROM executions WHERE endpoint = 'note'"))
    explained = api.get(f"/executions/{execution.execution_id}/explain")
    assert explained["reason"] == "NO_PROCESS"
    assert told in explained["details"]["refusal"]
    assert [told in each["reason"] for each in api.get("/actors/note")["refusals"]] == [True]
    elsewhere.process("actors:work:default")
    eventually(lambda: user.lines() == ["other a", "note waits"])


def read(child: Child) -> str:
    return child.log.read_text()
