"""Several worker processes that lead to one target, and what the database has of its breaker."""

import time
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.catalog.revision import CATALOG, FLOW
from app.features.breakers import target_rows as store
from app.features.breakers.rules import BreakerSettings, slot_at
from app.features.breakers.target_rows import Publication
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease as workers
from app.queue.claiming.partition import Lane
from brokers.known_targets import NO_LIMIT, Targets
from brokers.sharing.connections import BreakerAdmission, ConnectionAdmission
from brokers.target_state import Target
from brokers.worker_breakers import Breakers
from brokers.worker_process import WorkerProcess
from tests.contract.broker.delivering import catalog_of
from tests.rows import database_now

NAME = "http:host:80"
TIMEOUT_MS = 1000
LIMIT = 100


class Worker:
    """What a worker process knows of the target, by the name of an endpoint that leads there."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        settings: dict[str, BreakerSettings] | None = None,
        publish_seconds: float = 0,
        host: str = "",
    ) -> None:
        """Without a host it is a process without a row, as if it had been pruned."""
        self._database = database
        self.worker_id = worker_id
        if host:
            workers.register(database, worker_id=worker_id, host=host, pid=1, queues=[], capacity=1, lease_ms=60_000)
        self.targets = Targets(LIMIT, (settings or {}).get, forget_seconds=0)
        self.breakers = Breakers(
            database, worker_id, host or worker_id, self.targets, Values(), publish_seconds=publish_seconds
        )
        self.target = self.bind("endpoint")

    def bind(self, endpoint: str, name: str = NAME) -> Target:
        return self.targets.bind(endpoint, name, TIMEOUT_MS, has_turns=True).target

    def learn(self) -> bool:
        return self.breakers.learn(store.notable(self._database))

    def beat(self) -> None:
        """Do what te-flow does twice a second."""
        self.learn()
        self.breakers.act()

    def fail(self, count: int = 1, endpoint: str = "endpoint", **options: Any) -> None:
        for _ in range(count):
            self.target.failed(endpoint, **options)

    def succeed(self, count: int, endpoint: str = "endpoint") -> None:
        self.target.results.tally[0] += count
        self.target.results.by_endpoint[endpoint][0] += count

    def room(self, endpoint: str = "endpoint", held: Mapping[str, int] | None = None) -> int:
        return room_of(self.targets, endpoint, held or {})


def room_of(targets: Targets, endpoint: str, held: Mapping[str, int]) -> int:
    """Return how many deliveries of an endpoint may be claimed, where there are slots enough."""
    return Rooms(targets, held).take(endpoint, NO_LIMIT)


class Rooms:
    """One claim, for which only breakers and connections are asked, by a process that holds slots."""

    def __init__(
        self, targets: Targets, held: Mapping[str, int], *, quick: Collection[str] = (), others: Collection[str] = ()
    ) -> None:
        slots: Any = SimpleNamespace(slots=held, quick=frozenset(quick), others=frozenset(others))
        no_rules: Any = SimpleNamespace(windowed=frozenset())
        self._rules = [BreakerAdmission(targets, slots), ConnectionAdmission(targets, slots, no_rules)]
        for rule in self._rules:
            rule.begin(time.monotonic())

    def room(self, endpoint: str) -> int:
        """Return how many more of an endpoint may be claimed."""
        return min(rule.room(_lane(endpoint), time.monotonic()).slots for rule in self._rules)

    def take(self, endpoint: str, most: int) -> int:
        """Reserve up to so many for an endpoint; returns how many."""
        slots = min(most, self.room(endpoint))
        for rule in self._rules:
            rule.reserved(_lane(endpoint), slots)
        return slots


def _lane(endpoint: str) -> Lane:
    return Lane(0, endpoint, "", 128)


def deliveries_of(database: Database, process: WorkerProcess, loop: DeliveryLoop) -> Deliveries:
    """Return what delivers for a process, and tells it where endpoints lead."""
    catalog = catalog_of(database)
    deliveries = Deliveries(catalog, loop, database, process.targets, process.rules)
    process.on_revision, process.look_up = catalog.observe, deliveries.look_up
    return deliveries


def revisions(database: Database) -> tuple[int, int]:
    """Return the revisions of flow and catalogue."""
    by_id = {row.id: row.revision for row in database.fetch(text("SELECT id, revision FROM catalog_revision"))}
    return by_id[FLOW], by_id[CATALOG]


NewWorker = Callable[..., Worker]


def beat(workers: list[Worker]) -> None:
    """Twice: what one has written, those before it learn the second time."""
    for worker in (*workers, *workers):
        worker.beat()


def failed_before(database: Database, worker_id: str = "wrk_gone", count: int = 1, target: str = NAME) -> None:
    """Let an endpoint have failed half a minute ago, so that its failing began in an earlier slot than the present."""
    slot = slot_at((database_now(database) - EPOCH).total_seconds()) - 3
    store.publish(database, worker_id, Publication({target: 60_000}, [(target, slot, "bad", 0, count)], [], {}))


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


def half_open(database: Database, workers: list[Worker]) -> Worker:
    """Let the breaker be open for its time, and each worker ask for the probe; returns who may send it."""
    set_past(database, "open_until")
    for worker in workers:
        worker.learn()
        assert worker.room() == 0, "nothing may be claimed before the right to it is won"
    beat(workers)
    (prober,) = [worker for worker in workers if worker.room() == 1]
    assert sum(worker.room() for worker in workers) == 1
    return prober


def reasons(database: Database) -> list[str]:
    rows = database.fetch(text("SELECT reason FROM breaker_events ORDER BY occurred_at, event_id"))
    return [found.reason for found in rows]


def statuses(database: Database) -> list[tuple[str, int]]:
    """Return where the executions of the endpoint are, and how many attempts each has used."""
    found = database.fetch(text("SELECT status, attempt_count FROM executions WHERE endpoint = 'shut' ORDER BY 1, 2"))
    return [(row.status, row.attempt_count) for row in found]
