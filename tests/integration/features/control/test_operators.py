"""Commands `flask queues`, `workers` and `status`."""

import json
import signal
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import process_heartbeat, worker_lease
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli


@pytest.fixture(autouse=True)
def busy(database: Database) -> None:
    """Create a served queue, an unserved queue, two workers, a scheduler, and an execution that has just completed."""
    rows.add_endpoint(database)
    rows.add_executions(database, 3, due_in=timedelta(seconds=-5))
    (bulk,) = rows.add_executions(database, due_in=timedelta(seconds=-5))
    database.fetch(text("UPDATE executions SET queue = 'bulk' WHERE execution_id = :id"), {"id": bulk})
    worker_lease.register(database, worker_id="w1", host="h", pid=7, queues=["http"], capacity=9, lease_ms=60_000)
    worker_lease.register(database, worker_id="w2", host="h", pid=8, queues=["http"], capacity=9, lease_ms=60_000)
    worker_lease.leave(database, "w2")
    process_heartbeat.beat(database, Component("default", ProcessKind.SCHEDULER))
    (ended,) = rows.add_executions(database)
    rows.set_status(database, rows.job_of(database, ended).job_id, "FAILED")


def test_queues_and_workers_equal_the_lists_of_the_api(api: Api, cli: Cli) -> None:
    listed = cli.json("queues", expect=1)["items"]
    expected = api.get("/queues").json["items"]
    assert [(each["queue"], each["workers"], each["due"]) for each in listed] == [("bulk", 0, 1), ("http", 1, 3)]
    assert [each | {"oldest_due_seconds": 0} for each in listed] == [
        each | {"oldest_due_seconds": 0} for each in expected
    ]
    assert "no worker serves it" in cli.run("queues", expect=1).stdout
    assert cli.json("workers")["items"] == api.get("/workers").json["items"]
    assert [each["worker_id"] for each in cli.json("workers", "--state", "alive")["items"]] == ["w1"]
    assert "0/9" in cli.run("workers").stdout


def test_status_summarises_workers_queues_and_deliveries(cli: Cli) -> None:
    shown = cli.run("status").stdout
    for part in (
        "1 ALIVE, 1 DEAD; 0 of 9 slots busy",
        "on time; 1 scheduler alive",
        "no worker serves it",
        "of the last 60 s",
    ):
        assert part in shown
    status = json.loads(cli.run("status", "--json").stdout)
    assert status["workers"] == {
        "by_state": {"ALIVE": 1, "DRAINING": 0, "LOST": 0, "DRAINED": 0, "DEAD": 1},
        "capacity": 9,
        "in_flight": 0,
    }
    assert (status["deliveries"]["overall"]["ended"], status["deliveries"]["overall"]["failed"]) == (1, 1)


def test_watched_status_repeats_until_ctrl_c(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    def interrupt(*args: object, **options: object) -> None:
        shown.append((args, options))
        if len(shown) == 2:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("app.features.control.cli.print_json", interrupt)
    cli.run("status", "--watch", "--every", "1", "--json")
    assert len(shown) == 2
    assert signal.getsignal(signal.SIGINT) is before
