"""Breakers with several worker processes: one probe at a time, no attempt while open, no execution lost."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaException
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.servers import Tansu, Valkey
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from schema.states import EndpointType
from tests import rows
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

EACH = 8
RETRIES = {"max_attempts": 100, "backoff": "fixed", "initial_delay_ms": 100}
SETTINGS = {"min_results": 5, "open_for": "2s"}
PROPAGATION = timedelta(seconds=1)  # until every process has read that a breaker is open
START_ERROR = timedelta(seconds=0.5)  # recorded starts are early by at most the round trip of the claim
PATH = "/broken/by-a-breaker"


@pytest.fixture
def own_kafka() -> Iterator[Tansu]:
    with start_or_skip(Tansu()) as server:
        yield server


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    with start_or_skip(Valkey()) as server:
        yield server


def events(database: Database, target: str) -> list[Any]:
    rows = database.fetch(
        text("SELECT * FROM breaker_events WHERE target = :target ORDER BY occurred_at, event_id"), {"target": target}
    )
    return list(rows)


def targets_of(database: Database) -> dict[str, str]:
    """Return the target of each endpoint whose target a worker has resolved."""
    rows = database.fetch(text("SELECT endpoint, target FROM breaker_endpoints"))
    return {row.endpoint: row.target for row in rows}


def has_failed_probes(database: Database, endpoints: set[str]) -> bool:
    targets = targets_of(database)
    reasons = {name: [event.reason for event in events(database, target)] for name, target in targets.items()}
    return targets.keys() == endpoints and all(found.count("PROBE_FAILED") >= 2 for found in reasons.values())


def check_starts(database: Database, endpoint: str, target: str) -> None:
    """Check that no attempt starts while the breaker is open, and at most one while the breaker is half open."""
    query = f"""
        SELECT a.started_at FROM {ALL_ATTEMPTS} AS a JOIN executions AS e ON e.execution_id = a.execution_id
         WHERE e.endpoint = :endpoint ORDER BY a.started_at
    """
    starts = [row.started_at for row in database.fetch(text(query), {"endpoint": endpoint})]
    changes = events(database, target)
    assert [change.from_state for change in changes] == ["closed", *(change.to_state for change in changes[:-1])]
    for change, following in pairwise(changes):
        since = change.occurred_at + (PROPAGATION if change.from_state == "closed" else timedelta(0))
        until = following.occurred_at
        if change.to_state == "half_open":
            since -= START_ERROR
        elif change.to_state == "open":
            until -= START_ERROR
        found = [start for start in starts if since < start < until]
        assert len(found) <= (1 if change.to_state == "half_open" else 0) or change.to_state == "closed", (
            f"{endpoint}: {len(found)} attempts started after {since}, when the breaker became {change.to_state}"
        )
    assert changes[-1].reason == "PROBE_SUCCEEDED"


def test_one_of_three_processes_probes_each_failing_target(
    database: Database, stack: Stack, receiver: Receiver, own_kafka: Tansu, own_valkey: Valkey
) -> None:
    specs: dict[EndpointType, dict[str, Any]] = {
        EndpointType.HTTP: {"url": f"{receiver.base_url}{PATH}", "method": "POST"},
        EndpointType.KAFKA: {
            "bootstrap_servers": own_kafka.bootstrap, "topic": "t", "value_template": {}, "timeout_ms": 1000,
        },
        EndpointType.REDIS_STREAM: {
            "redis_url": own_valkey.url, "stream": "s", "fields_template": {"a": "b"}, "timeout_ms": 1000,
        },
    }  # fmt: skip
    own_kafka.kill()
    own_valkey.kill()
    for type_, spec in specs.items():
        rows.add_endpoint(database, type_.queue, type_=type_, spec=spec, retry_policy=RETRIES)
        rows.add_executions(database, EACH, endpoint=type_.queue, type_=type_, max_attempts=100)
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:b AS JSONB) RETURNING 1"), {"b": json.dumps(SETTINGS)})
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1"))
    stack.worker(processes=3)
    endpoints = {type_.queue for type_ in specs}
    eventually(lambda: has_failed_probes(database, endpoints), what="two failed probes of each target")

    own_kafka.start()
    with suppress(KafkaException):  # the broker has already created the topic for a probe
        own_kafka.create_topic("t")
    own_valkey.start()
    receiver.release(PATH)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": EACH * len(specs)}, timeout=120, what="all successes")
    for endpoint, target in targets_of(database).items():
        check_starts(database, endpoint, target)
    # Waiting costs no attempt: the count of each execution equals its recorded attempts.
    query = f"""
        SELECT count(*) FROM executions AS e
         WHERE attempt_count <> (SELECT count(*) FROM {ALL_ATTEMPTS} AS a WHERE a.execution_id = e.execution_id)
    """
    assert database.fetch(text(query))[0][0] == 0
    made = database.fetch(text("SELECT sum(attempt_count) AS n FROM executions WHERE endpoint = 'http'"))[0].n
    assert made == len(receiver.wait_for(0, path=PATH))
