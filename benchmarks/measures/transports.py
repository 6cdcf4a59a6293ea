"""Drains of the product's transports in turn: HTTP, Redis Stream and Kafka, timed in the database."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import psycopg2

from app.dev.process.child import ChildError
from app.dev.servers import Tansu
from benchmarks.contenders.contender import BODY
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from benchmarks.system import System

_POLL_SECONDS = 0.1  # long, because each poll reads the table
_HTTP, _REDIS, _KAFKA = "ours, HTTP", "ours, Redis Stream", "ours, Kafka"
_FIELDS = {name: "{{input." + name + "}}" for name in BODY}
_TOPIC = "bench"

_SHOWN = (drain.RATE, drain.STEADY, drain.PYTHON, drain.DATABASE, drain.RECEIVER, drain.REPEATS)

RATIO = Figure("steady, relative to HTTP in the same round", "", 2)
# The receivers differ, and use CPU time of the same cores.
RATIO_OF_CPU = Figure("CPU of workers and PostgreSQL with HTTP, relative to this transport", "", 2)


class _Transport(NamedTuple):
    type_: str
    receiver_pid: int
    spec: dict[str, Any]


class Completions:
    """Deliveries of one endpoint as recorded in the database."""

    def __init__(self, ours: Ours, endpoint: str) -> None:
        self._url = ours.stack.database_url
        self._endpoint = endpoint

    def clear(self) -> None:
        """Do nothing: each endpoint is used once."""

    def counts(self) -> dict[str, int]:
        """Return the numbers of successful executions and of repeated attempts."""
        arrived, repeats = self._ask("SELECT count(*), coalesce(sum(attempt_count - 1), 0)")[0]
        return {"arrived": arrived, "repeats": int(repeats)}

    def times(self) -> dict[str, float]:
        """Return the completion time of each success, by the database's clock."""
        return {key: float(at) for key, at in self._ask("SELECT execution_id, extract(epoch FROM completed_at)")}

    def wait_for(self, count: int, *, timeout: float = 120.0, check: Callable[[], object] = bool) -> int:
        """Wait until `count` executions have succeeded, and return their number."""
        deadline = time.monotonic() + timeout
        while (arrived := self.counts()["arrived"]) < count:
            check()
            if time.monotonic() > deadline:
                raise ChildError(f"{arrived} of {count} succeeded within {timeout:.0f} s")
            time.sleep(_POLL_SECONDS)
        return arrived

    def _ask(self, select: str) -> list[Any]:
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            cursor.execute(select + " FROM executions WHERE endpoint = %s AND status = 'SUCCESS'", (self._endpoint,))
            return list(cursor.fetchall())


def measure(run: Run, system: System, count: int, rounds: int) -> Section:
    """Drain the three transports in turn."""
    section = run.section(f"Transports, drain of {count:,}")
    with Tansu() as tansu:
        tansu.create_topic(_TOPIC, 4)
        headers = {"Authorization": "Bearer bench"}
        transports = {
            _HTTP: _Transport(
                "HTTP",
                system.arrivals.pid,
                {"url": system.arrivals.url, "method": "POST", "headers": headers, "body_template": _FIELDS},
            ),
            _REDIS: _Transport(
                "REDIS_STREAM",
                system.valkey.pid,
                {"redis_url": system.valkey.url, "stream": "bench", "fields_template": _FIELDS},
            ),
            _KAFKA: _Transport(
                "KAFKA",
                tansu.pid,
                {"bootstrap_servers": tansu.bootstrap, "topic": _TOPIC, "acks": "all", "value_template": _FIELDS},
            ),
        }
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
    return drain.drain(ours, target, Completions(ours, endpoint), count, receiver_pid=over.receiver_pid)


def _cpu(figures: Mapping[Figure, float]) -> float:
    return figures[drain.PYTHON] + figures[drain.DATABASE]
