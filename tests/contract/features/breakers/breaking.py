"""Several worker processes that lead to one target, and what the database has of its breaker."""

import time
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.kernel.db import Database
from app.kernel.metrics.values import Values
from app.queue.claiming.endpoint_rules import FlowRules, Rules
from app.queue.claiming.partition import Partition
from brokers.sharing.bindings import NO_LIMIT, Bindings
from brokers.sharing.target_admission import TargetAdmission
from brokers.target_state import Target
from brokers.worker_breakers import WorkerBreakers
from brokers.worker_process import WorkerProcess
from tests.contract.broker.delivering import catalog_of

NAME = "http:host:80"
TIMEOUT_MS = 1000
LIMIT = 100


class Worker:
    """A worker process that sends to the target, and the endpoints that lead there."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        settings: Mapping[str, Any] | None = None,
        *,
        publish_seconds: float = 0,
        yield_seconds: float = 0,
    ) -> None:
        self.worker_id = worker_id
        self.rules = FlowRules(database)
        self.set_rules(settings or {})
        self.breakers = WorkerBreakers(
            database, worker_id, Values(), publish_seconds=publish_seconds, yield_seconds=yield_seconds
        )
        self.bindings = Bindings(self.breakers, self.rules, LIMIT, forget_seconds=0)
        self.target = self.bind("endpoint")

    def set_rules(self, settings: Mapping[str, Any]) -> None:
        """Change the breaker settings of endpoints."""
        self.rules.by_endpoint = {name: Rules(None, stored, False) for name, stored in settings.items()}
        self.rules.revision += 1

    def bind(self, endpoint: str, name: str = NAME) -> Target:
        return self.bindings.bind(endpoint, name, TIMEOUT_MS, has_turns=True).target

    def learn(self) -> None:
        self.breakers.look()

    def beat(self) -> None:
        """Do what te-flow does twice a second."""
        self.breakers.beat()

    def fail(self, count: int = 1, endpoint: str = "endpoint", **options: Any) -> None:
        for _ in range(count):
            self.target.failed(endpoint, **options)

    def succeed(self, count: int, endpoint: str = "endpoint") -> None:
        self.target.results[endpoint][0] += count

    def room(self, endpoint: str = "endpoint", held: Mapping[str, int] | None = None) -> int:
        return Rooms(self.breakers, self.bindings, held or {}).take(endpoint, NO_LIMIT)

    def probe(self, attempt: object, endpoint: str = "endpoint") -> bool:
        """Ask for the right to send a probe, as the preparation of a delivery does."""
        return self.breakers.probe(self.target, attempt, endpoint)


def room_of(process: WorkerProcess, endpoint: str) -> int:
    """Return how many deliveries of an endpoint a process may claim, where there are slots enough."""
    return Rooms(process.breakers, process.bindings, {}).take(endpoint, NO_LIMIT)


class Rooms:
    """One claim, for which only breakers and connections are asked, by a process that holds slots."""

    def __init__(
        self,
        breakers: WorkerBreakers,
        bindings: Bindings,
        held: Mapping[str, int],
        *,
        quick: Collection[str] = (),
        others: Collection[str] = (),
    ) -> None:
        slots: Any = SimpleNamespace(slots=held, quick=frozenset(quick), others=frozenset(others))
        no_rules: Any = SimpleNamespace(windowed=frozenset())
        self._rule = TargetAdmission(breakers, bindings, slots, no_rules)
        self._rule.begin(time.monotonic())

    def room(self, endpoint: str) -> int:
        """Return how many more of an endpoint may be claimed."""
        return self._rule.room(_partition(endpoint), time.monotonic()).slots

    def take(self, endpoint: str, most: int) -> int:
        """Reserve up to so many for an endpoint; returns how many."""
        slots = min(most, self.room(endpoint))
        if slots:
            self._rule.reserved(_partition(endpoint), slots)
        return slots


def _partition(endpoint: str) -> Partition:
    return Partition(0, endpoint, "", 128)


def deliveries_of(database: Database, process: WorkerProcess, loop: DeliveryLoop) -> Deliveries:
    """Return deliveries of a process, which resolve targets at each pulse."""
    catalog = catalog_of(database)
    deliveries = Deliveries(catalog, loop, database, process)
    process.on_revision = catalog.observe
    process.flow.on_pulse(deliveries.follow)
    return deliveries


NewWorker = Callable[..., Worker]


def beat(workers: list[Worker]) -> None:
    """Twice: what one has written, those before it learn the second time."""
    for worker in (*workers, *workers):
        worker.beat()


def row(database: Database, target: str = NAME) -> Any:
    (found,) = database.fetch(text("SELECT * FROM breakers WHERE target = :target"), {"target": target})
    return found


def set_past(database: Database, column: str) -> None:
    database.fetch(text(f"UPDATE breakers SET {column} = now() - INTERVAL '1 second' RETURNING 1"))


def opened(database: Database, workers: list[Worker]) -> None:
    """Open the breaker by failures that no worker alone has seen enough of."""
    for worker in workers:
        worker.fail(4)
    beat(workers)
    assert [worker.room() for worker in workers] == [0] * len(workers)


def half_open(database: Database, workers: list[Worker], attempt: object) -> Worker:
    """Let the time of the open breaker pass, and each worker try to probe; returns the worker that may."""
    set_past(database, "open_until")
    for worker in workers:
        worker.learn()
    assert [worker.room() for worker in workers] == [1] * len(workers), "each may claim one"
    (prober,) = [worker for worker in workers if worker.probe(attempt)]
    return prober


def reasons(database: Database) -> list[str]:
    rows = database.fetch(text("SELECT reason FROM breaker_events ORDER BY occurred_at, event_id"))
    return [found.reason for found in rows]


def statuses(database: Database) -> list[tuple[str, int]]:
    """Return where the executions of the endpoint are, and how many attempts each has used."""
    found = database.fetch(text("SELECT status, attempt_count FROM executions WHERE endpoint = 'shut' ORDER BY 1, 2"))
    return [(row.status, row.attempt_count) for row in found]
