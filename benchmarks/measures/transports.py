"""Drains of our transports beside each other: HTTP, Redis Stream and Kafka, seen from the database."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import psycopg2

from app.dev.process.child import ChildError
from app.dev.servers import Tansu
from benchmarks.contenders.contender import BODY
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from benchmarks.system import System

_POLL_SECONDS = 0.1  # each look reads the table
_HTTP, _REDIS, _KAFKA = "ours, HTTP", "ours, Redis Stream", "ours, Kafka"
_FIELDS = {name: "{{input." + name + "}}" for name in BODY}
_TOPIC = "bench"

RATIO = Figure("steady, by HTTP of the same round", "", 2)


class Conclusions:
    """What the database says of the deliveries of one endpoint."""

    def __init__(self, ours: Ours, endpoint: str) -> None:
        self._url = ours.stack.database_url
        self._endpoint = endpoint

    def clear(self) -> None:
        """Do nothing: an endpoint is used once."""

    def counts(self) -> dict[str, int]:
        """Return how many succeeded, and how many attempts were repeats."""
        arrived, repeats = self._ask("SELECT count(*), coalesce(sum(attempt_count - 1), 0)")[0]
        return {"arrived": arrived, "repeats": int(repeats)}

    def times(self) -> dict[str, float]:
        """Return when each succeeded, by the database's clock."""
        return {key: float(at) for key, at in self._ask("SELECT execution_id, extract(epoch FROM completed_at)")}

    def wait_for(self, count: int, *, timeout: float = 120.0, check: Callable[[], object] = bool) -> int:
        """Wait until so many have succeeded, and return how many."""
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
    """Drain the three in turn."""
    section = run.section(f"Transports, drain of {count:,}")
    with Tansu() as tansu:
        tansu.create_topic(_TOPIC, 4)
        headers = {"Authorization": "Bearer bench"}
        specs: Mapping[str, tuple[str, dict[str, Any]]] = {
            _HTTP: (
                "HTTP",
                {"url": system.arrivals.url, "method": "POST", "headers": headers, "body_template": _FIELDS},
            ),
            _REDIS: (
                "REDIS_STREAM",
                {"redis_url": system.valkey.url, "stream": "bench", "fields_template": _FIELDS},
            ),
            _KAFKA: (
                "KAFKA",
                {"bootstrap_servers": tansu.bootstrap, "topic": _TOPIC, "acks": "all", "value_template": _FIELDS},
            ),
        }
        for number in range(rounds):
            run.calibrate()
            figures = {who: _drain(system.ours, f"{who} {number}", *specs[who], count) for who in specs}
            for who, of_one in figures.items():
                for figure in (drain.RATE, drain.STEADY, drain.PYTHON, drain.DATABASE, drain.REPEATS):
                    section.add(figure, who, of_one[figure])
                section.add(RATIO, who, of_one[drain.STEADY] / figures[_HTTP][drain.STEADY])
            print(
                "  transports: " + ", ".join(f"{who} {of_one[drain.STEADY]:,.0f}/s" for who, of_one in figures.items())
            )
        run.calibrate()
    return section


def _drain(ours: Ours, target: str, type_: str, spec: Mapping[str, Any], count: int) -> dict[Figure, float]:
    endpoint = ours.register(target, type_, spec)
    return drain.drain(ours, target, Conclusions(ours, endpoint), count)
