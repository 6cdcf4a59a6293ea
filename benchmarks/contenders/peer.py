"""Peers: other task queues, which run in the benchmark's own environment."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2

from app.dev.process.child import Child
from app.dev.stack.stack_processes import Processes
from benchmarks.contenders import ours
from benchmarks.contenders.contender import BODY, TOKEN, Contender, Times

_SECONDS = 300.0

_CELERY = ("celery", "-A", "benchmarks.peers.celery_peer", "worker", "--loglevel", "WARNING", "--without-gossip")
_TASKIQ = ("taskiq", "worker", "benchmarks.peers.taskiq_peer:broker", "--workers", "2", "--log-level", "WARNING")
_DRAMATIQ = ("dramatiq", "benchmarks.peers.dramatiq_peer", "--processes", "2")
# Commands of the workers: two processes, as many as the product has, with the fastest of the settings in TRIED.
WORKERS = {
    "pgqueuer": ("benchmarks.peers.pgqueuer_peer", "work", "100"),
    "taskiq": (*_TASKIQ, "--max-async-tasks", "100"),
    "dramatiq": (*_DRAMATIQ, "--threads", "8"),
    "celery": (*_CELERY, "--without-mingle", "--concurrency", "2"),
    "aiohttp": ("benchmarks.peers.aiohttp_peer", "work"),
}
TRIED = {
    "pgqueuer": [("benchmarks.peers.pgqueuer_peer", "work", size) for size in ("30", "100", "300", "1000")],
    "taskiq": [(*_TASKIQ, "--max-async-tasks", most) for most in ("30", "100", "300")],
    "dramatiq": [(*_DRAMATIQ, "--threads", threads) for threads in ("4", "8", "16")],
    "celery": [
        (*_CELERY, "--without-mingle", "--concurrency", "2"),
        (*_CELERY, "--without-mingle", "--concurrency", "4"),
        (*_CELERY, "--without-mingle", "--pool", "threads", "--concurrency", "16"),
    ],
}
"""Settings that `python -m benchmarks search` compares."""
QUEUES = ("pgqueuer", "taskiq", "dramatiq", "celery")
_EACH_PROCESS_BY_ITSELF = {"pgqueuer", "aiohttp"}
_WITHOUT_DELAYS = {"taskiq"}


class Peer(Contender):
    """A peer: a module of `benchmarks.peers`."""

    def __init__(self, name: str, processes: Processes) -> None:
        self.name = name
        self._command = WORKERS[name]
        self._module = f"benchmarks.peers.{name}_peer"
        self.processes = processes
        self._copies = 2 if name in _EACH_PROCESS_BY_ITSELF else 1
        self._started = 0

    @property
    def remark(self) -> str:
        return f"{self._copies} x `{' '.join(self._command)}`"

    @contextmanager
    def with_command(self, command: tuple[str, ...]) -> Iterator[None]:
        """Start the workers by another command."""
        usual, self._command = self._command, command
        try:
            yield
        finally:
            self._command = usual

    def fill(self, url: str, count: int) -> float:
        return count / float(self._run("enqueue", url, count) or "inf")

    def start(self) -> list[Child]:
        self._started += 1
        return [
            self.processes.launch(f"{self.name}-{self._started}-{copy}", self._command) for copy in range(self._copies)
        ]

    def idle(self, url: str, count: int) -> Times | None:
        return None if self.name == "aiohttp" else self._times("idle", url, count)

    def delayed(self, url: str, count: int) -> Times | None:
        return None if self.name == "aiohttp" or self.name in _WITHOUT_DELAYS else self._times("delayed", url, count)

    def _times(self, command: str, url: str, count: int) -> Times:
        times: Times = json.loads(self._run(command, url, count))
        return times

    def _run(self, command: str, url: str, count: int) -> str:
        """Run a command of the peer's module, and return its output."""
        words = (self._module, command, url, str(count), json.dumps(BODY), TOKEN)
        return self.processes.run(words, timeout=_SECONDS).strip()


class PgQueuer(Peer):
    """pgqueuer on the product's PostgreSQL server, in a separate database."""

    def __init__(self, processes: Processes, database_pid: int | None) -> None:
        super().__init__("pgqueuer", processes)
        self.database_url = processes.env["PGDSN"]
        self.database_pid = database_pid
        # It is durable by default; `autovac` applies its recommended settings.
        processes.run(("pgqueuer", "install"))
        processes.run(("pgqueuer", "autovac"))

    def settle(self) -> None:
        ours.settle(self.database_url)


def create_database(server_url: str, name: str) -> str:
    """Create a database on a server, and return its URL."""
    with closing(psycopg2.connect(server_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
    return server_url.rsplit("/", 1)[0] + f"/{name}"
