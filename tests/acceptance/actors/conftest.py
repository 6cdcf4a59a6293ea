"""Fixtures: a worker that listens to actors, processes of a user, and a broker that sends."""

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import pytest
from sqlalchemy import text

from app.dev.process.child import Child
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests.waiting import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


class User:
    """A user of actors: the broker and the module of the tests, and processes that run them."""

    def __init__(self, stack: Stack, database_url: str, folder: Path) -> None:
        self.stack = stack
        self.sockets = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
        self.effects = folder / "effects"
        self._folder = folder
        self._children: list[Child] = []
        self.env = {
            "BROKER_URL": database_url,
            "EFFECTS": str(self.effects),
            "TASK_EXECUTOR_ACTORS": f"unix:{self.sockets}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "actor_kit"), str(HERE)]),
            "PATH": os.environ["PATH"],
            "dramatiq_restart_delay": "200",
        }

    def worker(self, **env: str) -> Child:
        """Start a worker that listens to actors."""
        child = self.stack.worker(TE_ACTORS_LISTEN=str(self.sockets), **env)
        self.stack.wait_for_line(child, "listening for processes with actors")
        return child

    def process(
        self, *options: str, module: str = "user_tasks", threads: int = 4, processes: int = 1, **env: str
    ) -> Child:
        """Start `dramatiq` with a module of a user."""
        command = [sys.executable, "-m", "dramatiq", module, "-p", str(processes), "-t", str(threads), *options]
        number = len(self._children) + 1
        log = self._folder / f"user-{number}.log"
        child = Child(f"user-{number}", command, log=log, env={**self.env, **env}, cwd=self._folder)
        self._children.append(child)
        child.start()
        return child

    def lines(self) -> list[str]:
        """Return the effects of the actors so far."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def kill_processes(self) -> None:
        """Kill the processes with actors; the workers stay."""
        for child in self._children:
            child.kill()

    def stop(self) -> None:
        self.kill_processes()
        shutil.rmtree(self.sockets, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Trial:
    """The processes that all tests of a module share, and what is new there since the start of one test."""

    user: User
    database: Database
    earlier: int
    began: datetime

    def lines(self) -> list[str]:
        """Return the effects of the actors."""
        return self.user.lines()[self.earlier :]

    def executions_of(self, endpoint: str) -> list[Any]:
        found = text("SELECT * FROM executions WHERE endpoint = :name AND created_at >= :began ORDER BY created_at")
        return list(self.database.fetch(found, {"name": endpoint, "began": self.began}))

    def statuses(self) -> dict[str, int]:
        """Count the executions by status."""
        found = text("SELECT status, count(*) AS n FROM executions WHERE created_at >= :began GROUP BY status")
        return {row.status: row.n for row in self.database.fetch(found, {"began": self.began})}


def trial_of(user: User, database: Database) -> Trial:
    """Begin a trial."""
    ((began,),) = database.fetch(text("SELECT now()"))
    return Trial(user, database, len(user.lines()), began)


@contextmanager
def user_of(stack: Stack, database_url: str, folder: Path) -> Iterator[User]:
    """Make a user without processes; kill the remaining processes at the end."""
    user = User(stack, database_url, folder)
    try:
        yield user
    finally:
        user.stop()


@pytest.fixture
def user(stack: Stack, database_url: str, tmp_path: Path) -> Iterator[User]:
    """A user of the test; the test starts the processes that it needs."""
    with user_of(stack, database_url, tmp_path) as user:
        yield user


@pytest.fixture(scope="module")
def shared_user(
    shared_stack: Stack, module_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[User]:
    """A user for all tests of a module; for modules whose tests end no process."""
    with user_of(shared_stack, module_database_url, tmp_path_factory.mktemp("user")) as user:
        yield user


def wait_for_actors(database: Database, *names: str) -> None:
    """Wait until a process has registered actors of these names."""
    found = text("SELECT name FROM endpoints WHERE name = ANY (CAST(:names AS TEXT[]))")
    eventually(lambda: len(database.fetch(found, {"names": list(names)})) == len(names), what="the registration")


@contextmanager
def sending(user: User, monkeypatch: pytest.MonkeyPatch, name: str = "user_tasks") -> Iterator[ModuleType]:
    """Import a module of the user in this process, which sends."""
    for variable in ("BROKER_URL", "EFFECTS", "TASK_EXECUTOR_ACTORS"):
        monkeypatch.setenv(variable, user.env[variable])
    monkeypatch.syspath_prepend(str(HERE))
    sys.modules.pop(name, None)
    module = importlib.import_module(name)
    yield module
    module.broker.close()
    sys.modules.pop(name, None)
    dramatiq.set_broker(None)


@pytest.fixture
def tasks(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module `user_tasks`, which sends from this process."""
    with sending(user, monkeypatch) as module:
        yield module
