"""Drains of the product's transports in turn: HTTP, Redis Stream and Kafka, timed in the database."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import psycopg2
import redis
from confluent_kafka import Consumer, TopicPartition

from app.dev.process.child import ChildError
from app.dev.servers import Tansu
from benchmarks.contenders.contender import BODY
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from benchmarks.system import System

_POLL_SECONDS = 0.05
_HTTP, _REDIS, _KAFKA = "ours, HTTP", "ours, Redis Stream", "ours, Kafka"
_FIELDS = {name: "{{input." + name + "}}" for name in BODY}
_TOPIC, _PARTITIONS = "bench", 4
_RECORDS = 10_000  # read at once
_CONSUMER = {"group.id": "unused", "enable.auto.commit": False}

_SHOWN = (drain.RATE, drain.STEADY, drain.PYTHON, drain.DATABASE, drain.RECEIVER, drain.REPEATS)

RATIO = Figure("steady, relative to HTTP in the same round", "", 2)
# The receivers differ, and use CPU time of the same cores.
RATIO_OF_CPU = Figure("CPU of workers and PostgreSQL with HTTP, relative to this transport", "", 2)


class _Transport(NamedTuple):
    type_: str
    receiver_pid: int
    spec: dict[str, Any]
    arrived: Callable[[], int]
    """Returns how many deliveries the receiver has; its cost does not grow with their number."""


class Completions:
    """Deliveries of one endpoint: counted at the receiver while they run, read from the database after the workers."""

    def __init__(self, database_url: str, endpoint: str, arrived: Callable[[], int]) -> None:
        self._url = database_url
        self._endpoint = endpoint
        self._arrived = arrived
        self._before = 0

    def clear(self) -> None:
        """Count from here on."""
        self._before = self._arrived()

    def counts(self) -> dict[str, int]:
        """Return the numbers of successful executions and of repeated attempts."""
        arrived, repeats = self._ask("SELECT count(*), coalesce(sum(attempt_count - 1), 0)")[0]
        return {"arrived": arrived, "repeats": int(repeats)}

    def times(self) -> dict[str, float]:
        """Return the completion time of each success, by the database's clock."""
        return {key: float(at) for key, at in self._ask("SELECT execution_id, extract(epoch FROM completed_at)")}

    def wait_for(self, count: int, *, timeout: float = 120.0, check: Callable[[], object] = bool) -> int:
        """Wait until `count` deliveries have arrived at the receiver, and return their number."""
        deadline = time.monotonic() + timeout
        while (arrived := self._arrived() - self._before) < count:
            check()
            if time.monotonic() > deadline:
                message = f"{arrived} of {count} deliveries arrived within {timeout:.0f} s"
                raise ChildError(f"{message}; executions by state and attempts: {self._states()}")
            time.sleep(_POLL_SECONDS)
        return arrived

    def _states(self) -> str:
        """Describe the executions: a delivery may be missing here, or its record at the receiver."""
        rows = self._ask("SELECT status, attempt_count, count(*)", "GROUP BY 1, 2 ORDER BY 1, 2")
        return ", ".join(f"{status} {attempts}: {number}" for status, attempts, number in rows)

    def _ask(self, select: str, rest: str = "AND status = 'SUCCESS'") -> list[Any]:
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            cursor.execute(f"{select} FROM executions WHERE endpoint = %s {rest}", (self._endpoint,))
            return list(cursor.fetchall())


class _Records:
    """Records of a topic; the broker's end of the log lags behind, so each is read once."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._read = 0

    def count(self) -> int:
        """Read the new records, and return the number of all."""
        while new := self._consumer.consume(_RECORDS, timeout=0):
            self._read += sum(record.error() is None for record in new)
        return self._read


@contextmanager
def _transports(system: System) -> Iterator[dict[str, _Transport]]:
    """Start a broker, and describe the transports with their receivers."""
    with Tansu() as tansu, closing(redis.Redis.from_url(system.valkey.url)) as valkey:
        tansu.create_topic(_TOPIC, _PARTITIONS)
        headers = {"Authorization": "Bearer bench"}
        http = {"url": system.arrivals.url, "method": "POST", "headers": headers, "body_template": _FIELDS}
        stream = {"redis_url": system.valkey.url, "stream": "bench", "fields_template": _FIELDS}
        topic = {"bootstrap_servers": tansu.bootstrap, "topic": _TOPIC, "acks": "all", "value_template": _FIELDS}
        with closing(Consumer(_CONSUMER | {"bootstrap.servers": tansu.bootstrap})) as consumer:
            consumer.assign([TopicPartition(_TOPIC, number, 0) for number in range(_PARTITIONS)])
            yield {
                _HTTP: _Transport("HTTP", system.arrivals.pid, http, lambda: system.arrivals.counts()["arrived"]),
                _REDIS: _Transport("REDIS_STREAM", system.valkey.pid, stream, lambda: int(valkey.xlen("bench"))),
                _KAFKA: _Transport("KAFKA", tansu.pid, topic, _Records(consumer).count),
            }


def measure(run: Run, system: System, count: int, rounds: int) -> Section:
    """Drain the three transports in turn."""
    section = run.section(f"Transports, drain of {count:,}")
    with _transports(system) as transports:
        for number in range(rounds):
            run.calibrate()
            turns = transports if number % 2 == 0 else reversed(transports)
            figures = {column: _drain(system.ours, f"{column} {number}", transports[column], count) for column in turns}
            for column in transports:
                drained = figures[column]
                for figure in _SHOWN:
                    section.add(figure, column, drained[figure])
                section.add(RATIO, column, drained[drain.STEADY] / figures[_HTTP][drain.STEADY])
                if cpu := _cpu(drained):  # the kernel counts in hundredths of a second
                    section.add(RATIO_OF_CPU, column, _cpu(figures[_HTTP]) / cpu)
            print(
                "  transports: "
                + ", ".join(f"{column} {drained[drain.STEADY]:,.0f}/s" for column, drained in figures.items())
            )
        run.calibrate()
    return section


def _drain(ours: Ours, target: str, over: _Transport, count: int) -> dict[Figure, float]:
    endpoint = ours.register(target, over.type_, over.spec)
    completions = Completions(ours.stack.database_url, endpoint, over.arrived)
    return drain.drain(ours, target, completions, count, receiver_pid=over.receiver_pid)


def _cpu(figures: Mapping[Figure, float]) -> float:
    return figures[drain.PYTHON] + figures[drain.DATABASE]
