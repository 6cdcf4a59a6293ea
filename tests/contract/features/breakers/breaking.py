"""Worker processes that deliver to one target, and the rows of the target's breaker."""

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
from brokers.flow_state import read_flow_state
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
    """Worker process with the endpoints that resolve to the target."""

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
        self._database = database
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

    def read_states(self) -> None:
        self.breakers.learn(read_flow_state(self._database, self.worker_id).breakers)

    def sync(self) -> None:
        """Read the states of breakers and write results, as te-flow does twice a second."""
        self.read_states()
        self.breakers.update()

    def fail(self, count: int = 1, endpoint: str = "endpoint", **options: Any) -> None:
        for _ in range(count):
            self.target.failed(endpoint, **options)

    def succeed(self, count: int, endpoint: str = "endpoint") -> None:
        self.target.results[endpoint][0] += count

    def capacity(self, endpoint: str = "endpoint", in_use: Mapping[str, int] | None = None) -> int:
        return OneClaim(self.breakers, self.bindings, in_use or {}).take(endpoint, NO_LIMIT)

    def probe(self, attempt: object, endpoint: str = "endpoint") -> bool:
        """Request the probe of the breaker, as the preparation of a delivery does."""
        return self.breakers.probe(self.target, attempt, endpoint)


def capacity_of(process: WorkerProcess, endpoint: str) -> int:
    """Return how many deliveries of an endpoint a process may claim if it has enough slots."""
    return OneClaim(process.breakers, process.bindings, {}).take(endpoint, NO_LIMIT)


class OneClaim:
    """One claim of a process, limited by breakers and connections only; `in_use` has its occupied slots by endpoint."""

    def __init__(
        self,
        breakers: WorkerBreakers,
        bindings: Bindings,
        in_use: Mapping[str, int],
        *,
        quick: Collection[str] = (),
        others: Collection[str] = (),
    ) -> None:
        slots: Any = SimpleNamespace(slots=in_use, quick=frozenset(quick), others=frozenset(others))
        no_rules: Any = SimpleNamespace(windowed=frozenset())
        self._rule = TargetAdmission(breakers, bindings, slots, no_rules)
        self._rule.begin(time.monotonic())

    def capacity(self, endpoint: str) -> int:
        """Return how many more executions of an endpoint may be claimed."""
        return self._rule.room(_partition(endpoint), time.monotonic()).slots

    def take(self, endpoint: str, most: int) -> int:
        """Reserve up to `most` executions for an endpoint; returns their number."""
        slots = min(most, self.capacity(endpoint))
        if slots:
            self._rule.reserved(_partition(endpoint), slots)
        return slots


def _partition(endpoint: str) -> Partition:
    return Partition(0, endpoint, "", 128)


def deliveries_of(database: Database, process: WorkerProcess, loop: DeliveryLoop) -> Deliveries:
    """Return the deliveries of a process; `te-flow` resolves their targets again in each of its runs."""
    catalog = catalog_of(database)
    deliveries = Deliveries(catalog, loop, database, process)
    process.on_revision = catalog.observe
    process.flow.on_poll(deliveries.follow)
    return deliveries


NewWorker = Callable[..., Worker]


def sync_all(workers: list[Worker]) -> None:
    """Sync each worker twice: in the second round each worker reads the writes of all workers."""
    for worker in (*workers, *workers):
        worker.sync()


def row(database: Database, target: str = NAME) -> Any:
    (found,) = database.fetch(text("SELECT * FROM breakers WHERE target = :target"), {"target": target})
    return found


def set_past(database: Database, column: str) -> None:
    database.fetch(text(f"UPDATE breakers SET {column} = now() - INTERVAL '1 second' RETURNING 1"))


def open_breaker(database: Database, workers: list[Worker]) -> None:
    """Open the breaker by the failures of all workers together; no single worker has enough failures."""
    for worker in workers:
        worker.fail(4)
    sync_all(workers)
    assert [worker.capacity() for worker in workers] == [0] * len(workers)


def half_open(database: Database, workers: list[Worker], attempt: object) -> Worker:
    """End the open time and let each worker request the probe; returns the worker that gets the probe."""
    set_past(database, "open_until")
    for worker in workers:
        worker.read_states()
    assert [worker.capacity() for worker in workers] == [1] * len(workers), "each worker may claim one execution"
    (prober,) = [worker for worker in workers if worker.probe(attempt)]
    return prober


def reasons(database: Database) -> list[str]:
    rows = database.fetch(text("SELECT reason FROM breaker_events ORDER BY occurred_at, event_id"))
    return [found.reason for found in rows]


def statuses(database: Database) -> list[tuple[str, int]]:
    """Return status and attempt count of each execution of the endpoint."""
    found = database.fetch(
        text("SELECT status, attempt_count FROM executions WHERE endpoint = 'blocked' ORDER BY 1, 2")
    )
    return [(row.status, row.attempt_count) for row in found]
