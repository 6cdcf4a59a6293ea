"""Gauges of the service: each scheduler reads them from the database, and shows none after a failed read."""

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from app.dev.process.proxy import Mode, Proxy
from app.features.control.chores import set_gauges
from app.features.queues import store as queues_store
from app.kernel import db
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.metrics.values import Labels, Values
from app.kernel.processes import worker_lease
from tests import rows

NAMES = ["a-full", "b-rate", "c-rate", "d-open", "e-paused", "f-idle"]
DRAIN = """INSERT INTO worker_commands (command_id, worker_id, command, asked_by, expires_at, acknowledged_at)
           VALUES ('cmd_1', :worker, 'drain', 'test', now() + INTERVAL '1 minute', now()) RETURNING 1"""
MOVE = """UPDATE executions SET queue = u.queue
            FROM unnest(CAST(:ids AS TEXT[]), CAST(:queues AS TEXT[])) AS u (id, queue)
           WHERE execution_id = u.id RETURNING 1"""
CAPPED, RATED = {"max_in_flight": 1}, {"rate": {"count": 1, "per": "1h", "burst": 1}}


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    port = make_url(database_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: Proxy, database_url: str) -> Iterator[Database]:
    found = db.connect(proxy.url(database_url), pool_size=2, application_name="te-report")
    yield found
    found.close()


def shown(values: Values) -> dict[str, dict[Labels, float]]:
    """Return the gauges that a scrape would show, without empty series."""
    cells = values.snapshot().cells
    return {name: {labels: cell[0] for labels, cell in of.items()} for name, of in cells.items() if of}


def limit(database: Database, name: str, limits: dict[str, object]) -> None:
    query = "UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = :name RETURNING name"
    database.fetch(text(query), {"name": name, "limits": json.dumps(limits)})


def delay_next_start(database: Database, name: str, minutes: int) -> None:
    """Set the limiter of an endpoint so that its rate allows the next start in this number of minutes."""
    query = """INSERT INTO gates (gate_id, tat_ns) VALUES (:gate,
               CAST(EXTRACT(EPOCH FROM now()) * 1000 + :minutes * 60000 AS BIGINT) * 1000000) RETURNING gate_id"""
    database.fetch(text(query), {"gate": name, "minutes": minutes})


def test_gauges_show_the_state_of_the_database(database: Database) -> None:
    for name in NAMES:
        rows.add_endpoint(database, name)
        if name != "f-idle":
            rows.add_executions(database, 3, endpoint=name)
    (running,) = rows.add_executions(database, 1, endpoint="a-full")
    rows.set_status(database, rows.execution(database, running).job_id, "RUNNING")
    for name, limits in (("a-full", CAPPED), ("b-rate", RATED), ("c-rate", RATED), ("d-open", RATED)):
        limit(database, name, limits)
    for name, minutes in (("b-rate", 30), ("c-rate", 10)):
        delay_next_start(database, name, minutes)
    limit(database, "f-idle", CAPPED)
    database.fetch(text("UPDATE endpoints SET paused_at = now() WHERE name = 'e-paused' RETURNING 1"))
    database.fetch(text("INSERT INTO paused_queues (queue, paused_by) VALUES ('a-named', 'test') RETURNING 1"))
    database.fetch(text("UPDATE endpoints SET queue = 'a-named' WHERE name = 'f-idle' RETURNING 1"))
    database.fetch(text("UPDATE executions SET queue = 'bulk' WHERE endpoint = 'e-paused' RETURNING 1"))
    for worker_id, lease_ms in (("well", 600_000), ("leaving", 600_000), ("lost", 0)):
        worker_lease.register(
            database, worker_id=worker_id, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms
        )
    worker_lease.renew(database, worker_id="well", in_flight=4, lease_ms=600_000)
    worker_lease.renew(database, worker_id="leaving", in_flight=3, lease_ms=600_000)
    database.fetch(text(DRAIN), {"worker": "leaving"})
    rows.add_breaker(database, "http:a:80", "open", open_for=timedelta(hours=1))
    rows.add_breaker(database, "http:b:80", "closed")
    late = """UPDATE jobs SET trigger_type = 'INTERVAL', interval_ms = 1,
                  cron_next_run_at = now() + CASE WHEN job_id = (SELECT min(job_id) FROM jobs)
                                                  THEN - INTERVAL '5 minutes' ELSE INTERVAL '1 day' END"""
    database.fetch(text(late))

    for name in ("a-full", "a-full", "f-idle"):
        rows.add_letter(database, endpoint=name)
    rows.add_letter(database, resolution="ARCHIVED", resolved_at=rows.database_now(database))
    for age, end_id in (("2 minutes", "late"), ("0 minutes", "new")):
        rows.add_end(database, end_id, age)

    assert list(queues_store.known(database, 2).workers) == ["bulk", "http"], (
        "queues without waiting executions are left out first"
    )

    values = Values(most_endpoints=1)
    set_gauges(database, 1, values)
    found = shown(values)
    ages = found.pop("queue_oldest_due_seconds")
    assert {labels: 0 < age < 300 for labels, age in ages.items()} == {
        ("bulk",): True,
        ("http",): True,
        ("a-named",): False,
    }
    opens_in, lag = found.pop("endpoint_rate_opens_seconds"), found.pop("catch_up_lag_seconds")
    assert set(opens_in) == {("other",)}
    assert 25 * 60 < opens_in["other",] <= 30 * 60, "the longest wait of the endpoints in this series"
    assert 300 <= lag[()] < 600
    assert found == {
        "queue_depth": {("bulk",): 3, ("http",): 12, ("a-named",): 0},
        "queue_workers": {("bulk",): 0, ("http",): 1, ("a-named",): 0},
        "queue_paused": {("bulk",): 0, ("http",): 0, ("a-named",): 1},
        "queues_unserved": {(): 1},
        "queues_left_out": {(): 0},
        "endpoint_waiting": {("a-full", "concurrency"): 3, ("other", "rate"): 6, ("other", "paused"): 3},
        "endpoints_paused": {(): 1},
        "breakers": {("open",): 1, ("half_open",): 0},
        "workers": {("alive",): 1, ("draining",): 1, ("lost",): 1, ("drained",): 0, ("dead",): 0},
        "fleet_slots": {(): 18},
        "fleet_jobs_in_flight": {(): 7},
        "dead_letters_open": {("a-full",): 2, ("other",): 1},
        "outbox_ends_late": {(): 1},
    }


def test_queues_that_only_jobs_name_hide_no_other_queue(database: Database) -> None:
    """Any job can name a queue that no worker serves; its executions stay claimable for ever."""
    named = [f"a{number:03}" for number in range(queues_store.MAX_QUEUES + 5)]
    added = rows.add_executions(database, len(named) + 2)
    params = {"ids": added, "queues": [*named, "http", "z-routed"]}
    database.fetch(text(MOVE), params)
    database.fetch(text("UPDATE endpoints SET queue = 'z-routed' RETURNING 1"))
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["z-idle"], capacity=9, lease_ms=600_000)
    values = Values()
    set_gauges(database, 1, values)
    found = shown(values)
    assert {("http",), ("z-routed",), ("z-idle",)} <= {*found["queue_depth"]}
    assert len(found["queue_depth"]) == queues_store.MAX_QUEUES
    assert found["queues_left_out"] == {(): 8}
    assert {"http", "z-routed"} <= {each.queue for each in queues_store.unserved(database)}
    assert {"http", "z-routed"} <= {*queues_store.oldest_due(database)}


@pytest.mark.postgresql_only
def test_gauges_disappear_when_the_database_cannot_be_read(proxied: Database, proxy: Proxy, database: Database) -> None:
    rows.add_executions(database, 3)
    values = Values()
    report = partial(set_gauges, proxied, 1, values)
    report()
    assert shown(values)["queue_depth"] == {("http",): 3}
    proxy.set(Mode.CUT)
    with pytest.raises(UnavailableError):
        report()
    assert shown(values) == {}
    proxy.set(Mode.PASS)
    report()
    assert shown(values)["queue_depth"] == {("http",): 3}
    # The time limit covers the report as a whole, not each statement, and does not apply to later statements.
    with pytest.raises(UnavailableError):
        report(seconds=0.0)
    assert shown(values) == {}
    assert proxied.fetch(text("SELECT 1"))
