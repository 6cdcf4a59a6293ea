"""POST /workers/{worker_id}/drain, and what becomes of it: never pending for ever."""

from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_commands, worker_lease
from tests.contract.scheduler.conftest import chores
from tests.integration.client import Api, problem, services


@pytest.fixture(autouse=True)
def add_workers(database: Database) -> None:
    for worker_id, lease_ms in (("well", 600_000), ("lost", 0), ("gone", 600_000)):
        worker_lease.register(
            database, worker_id=worker_id, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms
        )
    worker_lease.leave(database, "gone")


def drain(api: Api, worker_id: str = "well") -> Any:
    response = api.post(f"/workers/{worker_id}/drain")
    assert response.status_code == 202, response.get_data(as_text=True)
    return response.json


def shown(api: Api, worker_id: str = "well") -> tuple[str, list[str]]:
    found = api.get(f"/workers/{worker_id}").json
    return found["state"], [each["state"] for each in found["commands"]]


def heartbeat(database: Database) -> None:
    """What the worker does with a command that has come: it acknowledges it."""
    found = [row.command_id for row in worker_commands.pending(database, "well")]
    worker_commands.acknowledge(database, "well", found)


def served(api: Api) -> int:
    return sum(queue["workers"] for queue in api.get("/queues").json["items"])


def test_a_drain_is_acknowledged_and_told_until_the_worker_has_ended(api: Api, database: Database) -> None:
    asked = drain(api)
    assert (asked["worker_id"], asked["command"], asked["state"]) == ("well", "drain", "PENDING")
    assert (asked["asked_by"], asked["acknowledged_at"]) == ("test", None)
    assert drain(api) == asked, "again it changes nothing"
    assert (shown(api), served(api)) == (("ALIVE", ["PENDING"]), 1)
    heartbeat(database)
    assert shown(api) == ("DRAINING", ["ACKNOWLEDGED"])
    assert served(api) == 0, "it claims nothing"
    assert drain(api)["command_id"] == asked["command_id"]
    assert [each["worker_id"] for each in api.get("/workers", state="DRAINING").json["items"]] == ["well"]
    worker_lease.leave(database, "well")
    assert shown(api) == ("DRAINED", ["ACKNOWLEDGED"])
    (entry,) = api.get("/audit", resource_type="worker").json["items"]
    assert (entry["action"], entry["resource"], entry["actor_name"]) == ("drain", "well", "test")


def test_a_command_to_a_worker_that_dies_or_does_not_listen_expires(api: Api, database: Database) -> None:
    drain(api)
    database.fetch(text("UPDATE worker_commands SET expires_at = now() RETURNING 1"))
    assert shown(api) == ("ALIVE", ["EXPIRED"])
    assert worker_commands.pending(database, "well") == []
    drain(api)
    assert shown(api) == ("ALIVE", ["PENDING", "EXPIRED"])
    database.fetch(text("UPDATE workers SET lease_expires_at = now() WHERE worker_id = 'well' RETURNING 1"))
    assert shown(api) == ("LOST", ["EXPIRED", "EXPIRED"])
    database.fetch(text("UPDATE worker_commands SET asked_at = asked_at - INTERVAL '25 hours' RETURNING 1"))
    assert chores(database).prune_heartbeats()["commands"] == 2


@pytest.mark.parametrize(
    ("worker_id", "status", "code", "fix"),
    [
        ("nobody", 404, "WORKER_NOT_FOUND", "GET /workers"),
        ("lost", 409, "WORKER_NOT_ALIVE", "GET /workers?state=ALIVE"),
        ("gone", 409, "WORKER_NOT_ALIVE", "GET /workers?state=ALIVE"),
    ],
)
def test_who_cannot_drain(api: Api, database: Database, worker_id: str, status: int, code: str, fix: str) -> None:
    assert fix in problem(api.post(f"/workers/{worker_id}/drain"), status, code)["message"]
    assert worker_commands.latest(database, worker_id) == []


def test_who_may_not(api: Api, database: Database) -> None:
    for scope in (Scope.READ, Scope.JOBS_WRITE):
        other = Api(api.app, api_keys.create(services(api.app).database, scope, [scope], None))
        problem(other.post("/workers/well/drain"), 403, "FORBIDDEN")
    assert worker_commands.latest(database, "well") == []
    problem(api.get("/workers/nobody"), 404, "WORKER_NOT_FOUND")


@pytest.mark.postgresql_only
def test_asking_waits_for_no_lock_on_the_worker_and_takes_none(api: Api, database: Database) -> None:
    """The lease is renewed in that row."""
    with database.engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM workers WHERE worker_id = 'well' FOR UPDATE"))
        assert drain(api)["state"] == "PENDING"
        heartbeat(database)
        assert shown(api) == ("DRAINING", ["ACKNOWLEDGED"])
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE worker_commands IN ACCESS EXCLUSIVE MODE"))
        assert worker_lease.renew(database, worker_id="well", in_flight=0, lease_ms=600_000)
