"""Contenders that run Dramatiq actors: the product's broker, and other brokers of Dramatiq."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from app.dev.process.child import Child, ChildError
from app.dev.stack import programs
from app.dev.stack.stack_processes import Processes
from benchmarks import environment
from benchmarks.contenders import ours, peer
from benchmarks.contenders.contender import BODY, TOKEN, Contender, Times
from benchmarks.contenders.ours import Ours
from benchmarks.system import System

PEERS = ("dramatiq + Redis", "dramatiq-pg", "dramatiq-postgres")
_MODULE = "benchmarks.peers.actors_peer"
_ON_POSTGRESQL = {"ours", "dramatiq-pg", "dramatiq-postgres"}
_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0
_THREADS = 8


class Records:
    """Times at which actors ran, in a file to which they append; takes the place of the receiver."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = path.as_uri()

    def clear(self) -> None:
        """Delete all records; the processes of actors keep the file open."""
        with self.path.open("w"):
            pass

    def counts(self) -> dict[str, int]:
        """Return the numbers of keys and of repeated runs."""
        runs = Counter(key for key, _ in self._lines())
        return {"arrived": len(runs), "repeats": runs.total() - len(runs)}

    def times(self) -> dict[str, float]:
        """Return the first run of each key, as Unix time."""
        found: dict[str, float] = {}
        for key, at in self._lines():
            found.setdefault(key, float(at))
        return found

    def wait_for(self, count: int, *, timeout: float = 120.0, check: Callable[[], object] = bool) -> int:
        """Wait for `count` runs, and return their number."""
        deadline = time.monotonic() + timeout
        while (ran := self.path.read_bytes().count(b"\n")) < count:
            check()
            if time.monotonic() > deadline:
                raise ChildError(f"{ran} of {count} actors ran within {timeout:.0f} s")
            time.sleep(_POLL_SECONDS)
        return ran

    def wait_for_keys(self, keys: Collection[str], timeout: float = _PATIENCE_SECONDS) -> None:
        """Wait for the runs of these keys."""
        self.wait_for(len(keys) + len(self.times().keys() - set(keys)), timeout=timeout)

    def _lines(self) -> list[tuple[str, str]]:
        pairs = (line.split() for line in self.path.read_text().splitlines())
        return [(key, at) for key, at in pairs]


class ActorContender(Contender):
    """Dramatiq over one broker: a `dramatiq` command of some processes with eight threads each."""

    def __init__(self, name: str, processes: Processes, records: Records, database: tuple[str, int | None]) -> None:
        """Take the URL of a database and the process id of its server."""
        self.name = name
        url, pid = database
        self.database_pid = pid if name in _ON_POSTGRESQL else None
        self.count = 1
        self._url = url
        self._processes = processes
        self._env = {"ACTORS_BROKER": name, "ACTORS_URL": url, "ACTORS_RECORDS": str(records.path)}
        self._started = 0
        if name != "ours" and name in _ON_POSTGRESQL:
            processes.run((_MODULE, "prepare"), **self._env)

    @property
    def remark(self) -> str:
        return f"`dramatiq` of {self.count} x {_THREADS} threads, an actor that appends a line to a file"

    def fill(self, url: str, count: int) -> float:
        return count / float(self._run("enqueue", url, count))

    def settle(self) -> None:
        ours.settle(self._url)

    def start(self) -> list[Child]:
        self._started += 1
        name = f"{self.name.replace(' ', '')}-{self._started}"
        words = ("dramatiq", _MODULE, "--processes", str(self.count), "--threads", str(_THREADS))
        return [self._processes.launch(name, words, **self._env)]

    def idle(self, url: str, count: int) -> Times:
        return self._times("idle", url, count)

    def delayed(self, url: str, count: int) -> Times:
        return self._times("delayed", url, count)

    def _times(self, command: str, url: str, count: int) -> Times:
        times: Times = json.loads(self._run(command, url, count))
        return times

    def _run(self, command: str, url: str, count: int) -> str:
        words = (_MODULE, command, url, str(count), json.dumps(BODY), TOKEN)
        return self._processes.run(words, timeout=300.0, **self._env).strip()


class OurActors(ActorContender):
    """The product's broker, with one worker beside the processes of actors."""

    def __init__(self, product: Ours, processes: Processes, records: Records) -> None:
        super().__init__("ours", processes, records, (product.stack.database_url, product.database_pid))
        self._product = product
        self._sockets = records.path.with_name("s")  # short: a path of a socket is
        self._sockets.mkdir()
        self._env |= {
            "TASK_EXECUTOR_ACTORS": f"unix:{self._sockets}",
            "PYTHONPATH": str(environment.ROOT / "actor_kit"),
        }
        with self.at_work():  # registers the actor
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not product.stack.api.get("/actors")["items"]:
                if time.monotonic() > deadline:
                    raise ChildError("the actor was not registered")
                time.sleep(_POLL_SECONDS)

    @property
    def remark(self) -> str:
        return f"{super().remark}; one worker of a process"

    def start(self) -> list[Child]:
        stack = self._product.stack
        number = sum(name.startswith("worker") for name in stack.names) + 1
        command = programs.worker(processes=1, threads=_THREADS)
        worker = stack.launch(f"worker-{number}", command, TE_ACTORS_LISTEN=str(self._sockets))
        stack.wait_for_line(worker, "listening for processes with actors")
        return [worker, *super().start()]


def actor_contenders(system: System, names: Sequence[str]) -> tuple[list[ActorContender], Records]:
    """Return the product's broker and the brokers of these names, and the records of their actors."""
    records, product = Records(system.logs / "actors.txt"), system.ours
    records.clear()
    processes = system.peers or system.processes
    found: list[ActorContender] = [OurActors(product, processes, records)]
    for name in names:
        database = peer.create_database(product.stack.database_url, re.sub(r"\W+", "_", name).lower())
        found.append(ActorContender(name, processes, records, (database, product.database_pid)))
    return found, records
