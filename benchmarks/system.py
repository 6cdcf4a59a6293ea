"""The system under measurement: real servers, the processes of the Procfile, and the yardstick's worker."""

import os
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import requests
from cryptography.fernet import Fernet

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from app.dev.servers import Postgres, Valkey
from schema import migrate

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


class System:
    """PostgreSQL (durable), Valkey, web, scheduler and, on demand, one of the two workers."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="te-bench-")))
        self.postgres = self._stack.enter_context(Postgres())
        self.valkey = self._stack.enter_context(Valkey())
        migrate.upgrade(self.postgres.url)
        self.api = f"http://127.0.0.1:{free_port()}"
        self._env = os.environ | {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "TE_DATABASE_URL": self.postgres.url,
            "TE_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode(),
            "TE_LISTEN_ADDR": self.api.removeprefix("http://"),
            "BENCH_REDIS_URL": self.valkey.url,
        }
        self.key = self._admin("api-keys", "create", f"bench-{secrets.token_hex(2)}")
        self.start("web", "gunicorn", "--config", "python:app.api.server", "app:create_app()")
        self._wait_until_ready()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def start(self, name: str, *command: str, **env: str) -> Child:
        """Start a program of this virtual environment; it ends with the system."""
        argv = [str(BIN / command[0]), *command[1:]]
        child = Child(name, argv, log=self._logs / f"{name}.log", env=self._env | env, cwd=ROOT)
        child.start()
        self._stack.callback(child.stop, 20.0)
        return child

    def worker(self, **env: str) -> Child:
        """Start our worker: two processes of eight threads."""
        child = self.start("worker", "dramatiq", "actors", "-p", "2", "-t", "8", **env)
        self._wait_for_line(child, "claims from", 2)
        return child

    def yardstick(self) -> Child:
        """Start plain Dramatiq over Redis, with as many processes and threads."""
        child = self.start("yardstick", "dramatiq", "benchmarks.baseline", "-p", "2", "-t", "8")
        self._wait_for_line(child, "ready for action", 2)
        return child

    def scheduler(self) -> Child:
        """Start a scheduler."""
        return self.start("scheduler", "python", "-m", "app.scheduler")

    def session(self) -> requests.Session:
        """Make an HTTP client that carries the API key."""
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.key}"
        return session

    def _admin(self, *words: str) -> str:
        child = self.start("admin", "flask", "--app", "app", *words)
        if child.wait(60) != 0:
            raise RuntimeError(child.tail())
        return child.tail(1).strip()

    def _wait_until_ready(self) -> None:
        for _ in range(300):
            try:
                if requests.get(f"{self.api}/health/ready", timeout=5).ok:
                    return
            except requests.ConnectionError:
                time.sleep(0.1)
        raise RuntimeError("the API did not become ready")

    def _wait_for_line(self, child: Child, words: str, times: int) -> None:
        for _ in range(600):
            if child.log.read_text().count(words) >= times:
                return
            if not child.is_running:
                raise RuntimeError(child.tail())
            time.sleep(0.05)
        raise RuntimeError(f"{child.name} did not start:\n{child.tail()}")
