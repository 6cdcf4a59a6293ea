"""Results that the breakers of a worker forget when a test has ended; a further module of its command line.

A worker keeps results of its deliveries in memory, and all tests deliver to one host. The end of a test is counted in
the database, before the next test can create an execution. So the worker compares the count before each delivery.
"""

import threading
from typing import Any

from sqlalchemy import Connection, text

from actors import broker
from app.kernel.db import Database
from app.kernel.function_types import AnyFunction
from brokers.consumer import DELIVER
from brokers.worker_breakers import WorkerBreakers

_CLEARS = text("SELECT clears FROM te_clock.moved")
# Results of the test that the worker wrote after they were deleted; children first.
_TABLES = ("breaker_events", "breaker_counts", "breaker_endpoints", "breakers")


class Forgetting:
    """Start of deliveries that first forgets the results of tests that have ended; thread-safe."""

    def __init__(self, start: AnyFunction, breakers: WorkerBreakers, database: Database) -> None:
        self._start = start
        self._breakers = breakers
        self._database = database
        self._clears = 0
        self._lock = threading.Lock()

    def __call__(self, *attempts: Any) -> Any:
        """Start deliveries, which wait until all older results are forgotten."""
        with self._lock:
            self._forget()
        return self._start(*attempts)

    def _forget(self) -> None:
        clears = self._database.fetch(_CLEARS)[0].clears
        if clears != self._clears:
            self._breakers.forget_results()
            self._database.transact(_delete)
            self._clears = clears


def _delete(connection: Connection) -> None:
    for table in _TABLES:
        connection.execute(text(f"DELETE FROM {table}"))


# The command line has imported `actors`, and no thread has begun.
_ACTOR = broker.actors[DELIVER]
_ACTOR.fn = Forgetting(_ACTOR.fn, broker.process.breakers, broker.process.database)
