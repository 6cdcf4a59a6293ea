"""Peers: other task queues, which run in the environment of the benchmark's own."""

import json
import time

from app.dev.process.child import Child
from app.dev.stack.processes import Processes
from benchmarks.contenders import ours
from benchmarks.contenders.contender import BODY, TOKEN, Contender


class Peer(Contender):
    """A module of `benchmarks.peers`: `enqueue` fills its queue, and its own command line starts its workers."""

    def __init__(self, name: str, processes: Processes, workers: tuple[str, ...], *, copies: int = 1) -> None:
        self.name = name
        self._module = f"benchmarks.peers.{name}_peer"
        self._processes = processes
        self._workers = workers
        self._copies = copies
        self._started = 0

    def run(self, *words: str) -> str:
        """Run a command of the peer's module."""
        return self._processes.run((self._module, *words), timeout=300)

    def fill(self, url: str, count: int) -> float:
        started = time.perf_counter()
        self.run("enqueue", url, str(count), json.dumps(BODY), TOKEN)
        return count / (time.perf_counter() - started)

    def start(self) -> list[Child]:
        self._started += 1
        return [
            self._processes.launch(f"{self.name}-{self._started}-{copy}", self._workers) for copy in range(self._copies)
        ]

    def remark(self) -> str:
        return f"{self._copies} x {' '.join(self._workers)}" if self._copies > 1 else " ".join(self._workers)


class PgQueuer(Peer):
    """pgqueuer on the same PostgreSQL server, in a database of its own."""

    def __init__(self, processes: Processes, database_url: str, database_pid: int | None) -> None:
        super().__init__("pgqueuer", processes, ("benchmarks.peers.pgqueuer_peer", "work", "100"), copies=2)
        self._database_url = database_url
        self.database_pid = database_pid

    def open(self) -> None:
        """Create its tables, durable by default, with the settings for autovacuum that it recommends."""
        self._processes.run(("pgqueuer", "install"))
        self._processes.run(("pgqueuer", "autovac"))

    def settle(self) -> None:
        ours.settle(self._database_url)
