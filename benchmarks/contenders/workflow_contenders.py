"""Contenders with workflows: the product, Celery's canvas and DBOS, each with two workers that can be killed."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from app.dev.process.child import Child
from app.dev.stack import programs
from app.dev.stack.stack_processes import Command, Processes
from benchmarks.contenders.contender import BODY, TOKEN, ended
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.peer import WORKERS

WORKER_NUMBERS = (1, 2)


class WorkflowContender(ABC):
    """A task queue with workflows."""

    name: str
    remark: str
    processes: Processes

    @abstractmethod
    def fan(self, url: str, count: int) -> float:
        """Start a workflow: one delivery, then `count` - 2 at once, then one to `url`/end; return the Unix time."""

    @abstractmethod
    def chain(self, url: str, count: int) -> float:
        """Start a workflow of `count` deliveries one after the other, the last to `url`/end; return the Unix time."""

    @abstractmethod
    def command(self, number: int, /) -> Command:
        """Return the command of a worker; a worker with the same number replaces it after its death."""

    @contextmanager
    def at_work(self) -> Iterator[list[Child]]:
        """Start two workers and stop them at the end; a killed one may be started again."""
        workers = [self.processes.launch(f"{self.name}-{number}", self.command(number)) for number in WORKER_NUMBERS]
        with ended(workers[0]), ended(workers[1]):
            yield workers


class OurWorkflows(WorkflowContender):
    """The product: explicit nodes, and the deliveries between the first and the last as nodes or as `items`."""

    def __init__(self, ours: Ours, *, items: bool = False) -> None:
        self.name = "ours, for_each" if items else "ours"
        self.remark = "two workers of a process x 8 threads; " + (
            "a node with for_each between two nodes" if items else "a node for each delivery"
        )
        self.processes = ours.stack
        self._ours = ours
        self._items = items

    def fan(self, url: str, count: int) -> float:
        endpoint = self._ours.endpoint(url)
        if self._items:
            between = [self._node("m", endpoint, "first", for_each="{{workflow.input.items}}")]
        else:
            between = [self._node(f"m{number}", endpoint, "first") for number in range(count - 2)]
        end = self._node("end", self._ours.endpoint(f"{url}/end"), *(node["name"] for node in between))
        return self._start([self._node("first", endpoint), *between, end], items=[0] * (count - 2))

    def chain(self, url: str, count: int) -> float:
        endpoint, end = self._ours.endpoint(url), self._ours.endpoint(f"{url}/end")
        names = [f"n{number}" for number in range(count)]
        nodes = [self._node(names[0], endpoint)]
        nodes += [self._node(name, endpoint, before) for before, name in pairwise(names[:-1])]
        return self._start([*nodes, self._node(names[-1], end, names[-2])])

    def command(self, _number: int, /) -> Command:
        return programs.worker(processes=1, threads=8)

    def _start(self, nodes: list[dict[str, object]], **given: object) -> float:
        began = time.time()
        self._ours.stack.api.post("/workflows", {"name": "bench", "nodes": nodes, "input": given})
        return began

    @staticmethod
    def _node(name: str, endpoint: str, *after: object, **fields: object) -> dict[str, object]:
        return {"name": name, "endpoint": endpoint, "input": BODY, "after": list(after)} | fields


class PeerWorkflows(WorkflowContender):
    """A peer: `benchmarks.peers.<name>_peer` with the commands `fan` and `chain`."""

    def __init__(self, name: str, processes: Processes) -> None:
        self.name = name
        self.processes = processes
        if name == "dbos":
            processes.run(("benchmarks.peers.dbos_peer", "prepare"))
        self.remark = f"two times `{' '.join(self.command(1))}`"

    def fan(self, url: str, count: int) -> float:
        return self._run("fan", url, count)

    def chain(self, url: str, count: int) -> float:
        return self._run("chain", url, count)

    def command(self, number: int, /) -> Command:
        if self.name == "dbos":
            return ("benchmarks.peers.dbos_peer", "work", f"executor-{number}")
        return (*WORKERS["celery"][:-1], "1", "--hostname", f"worker-{number}@bench")

    def _run(self, command: str, url: str, count: int) -> float:
        words = (f"benchmarks.peers.{self.name}_peer", command, url, str(count), json.dumps(BODY), TOKEN)
        return float(self.processes.run(words))
