"""POST /workers/{worker_id}/drain: a command that ends as acknowledged or expired, never pending for ever."""

from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_commands, worker_lease
from tests.cases import each_case
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


def acknowledge_commands(database: Database) -> None:
    """Acknowledge the pending commands, as the worker's heartbeat does."""
    found = [row.command_id for row in worker_commands.pending(database, "well")]
    worker_commands.acknowledge(database, "well", found)


def served_queues(api: Api) -> int:
    return sum(queue["workers"] for queue in api.get("/queues").json["items"])


def test_drain_is_acknowledged_and_shown_until_the_worker_has_ended(api: Api, database: Database) -> None:
    command = drain(api)
    assert (command["worker_id"], command["command"], command["state"]) == ("well", "drain", "PENDING")
    assert (command["asked_by"], command["acknowledged_at"]) == ("test", None)
    assert drain(api) == command, "a repeated drain changes nothing"
    assert (shown(api), served_queues(api)) == (("ALIVE", ["PENDING"]), 1)
    acknowledge_commands(database)
    assert shown(api) == ("DRAINING", ["ACKNOWLEDGED"])
    assert served_queues(api) == 0, "a draining worker serves no queue"
    assert drain(api)["command_id"] == command["command_id"]
    assert [each["worker_id"] for each in api.get("/workers", state="DRAINING").json["items"]] == ["well"]
    worker_lease.leave(database, "well")
    assert shown(api) == ("DRAINED", ["ACKNOWLEDGED"])
    (entry,) = api.get("/audit", resource_type="worker").json["items"]
    assert (entry["action"], entry["resource"], entry["actor_name"]) == ("drain", "well", "test")


def test_unacknowledged_command_expires(api: Api, database: Database) -> None:
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


@each_case(
    ("worker_id", "status", "code", "fix"),
    [
        ("nobody", 404, "WORKER_NOT_FOUND", "GET /workers"),
        ("lost", 409, "WORKER_NOT_ALIVE", "GET /workers?state=ALIVE"),
        ("gone", 409, "WORKER_NOT_ALIVE", "GET /workers?state=ALIVE"),
    ],
)
def test_drain_of_an_unknown_or_dead_worker_is_refused(
    api: Api, database: Database, worker_id: str, status: int, code: str, fix: str
) -> None:
    assert fix in problem(api.post(f"/workers/{worker_id}/drain"), status, code)["message"]
    assert worker_commands.latest(database, worker_id) == []


def test_drain_needs_the_scope_admin(api: Api, database: Database) -> None:
    for scope in (Scope.READ, Scope.JOBS_WRITE):
        other = Api(api.app, api_keys.create(services(api.app).database, scope, [scope], None))
        problem(other.post("/workers/well/drain"), 403, "FORBIDDEN")
    assert worker_commands.latest(database, "well") == []
    problem(api.get("/workers/nobody"), 404, "WORKER_NOT_FOUND")


@pytest.mark.postgresql_only
def test_drain_neither_waits_for_the_row_of_the_worker_nor_locks_it(api: Api, database: Database) -> None:
    """The worker renews its lease in its row, so a lock there would delay the renewal."""
    with database.engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM workers WHERE worker_id = 'well' FOR UPDATE"))
        assert drain(api)["state"] == "PENDING"
        acknowledge_commands(database)
        assert shown(api) == ("DRAINING", ["ACKNOWLEDGED"])
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE worker_commands IN ACCESS EXCLUSIVE MODE"))
        assert worker_lease.renew(database, worker_id="well", in_flight=0, lease_ms=600_000)
