"""Statements of the list of executions: as few for executions that wait in many partitions, for all reasons at once."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.catalog.endpoints import actor_endpoints
from app.console.pages import executions_page
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import actor_processes, worker_lease
from app.kernel.processes.actor_processes import ActorProcess
from tests import rows
from tests.integration.client import Api
from tests.integration.console.page_statements import Waits, with_many_statements
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, one_shot, register
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS

FULL: dict[str, Any] = {"max_in_flight": 1}
KEY = "{{input.user_id}}"
LIMITS: dict[str, dict[str, Any]] = {
    "full": FULL,
    "key-full": {"per_key": {"key": KEY, **FULL}},
    "full-of-keys": {**FULL, "per_key": {"key": KEY, "max_in_flight": 9}},
}
ACTORS = ("offered", "offered_too", "idle", "idle_too")
RUN = text(
    "UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1"
    " WHERE execution_id = (SELECT min(execution_id) FROM executions WHERE endpoint = :endpoint)"
)
WORDS = {
    *("breaker open", "its endpoint is paused", "no worker serves its queue", "limit of 1 in flight"),
    *("no process offers its actor", "behind 1", "next of its endpoint"),
}


@pytest.fixture
def _waiting(api: Api, database: Database) -> None:
    """Three executions of several endpoints for each reason of a wait."""
    Waits(api, database)
    queues = ["http", "actor", "still"]
    worker_lease.register(
        database, worker_id="wrk", host="h", pid=1, queues=queues, capacity=9, lease_ms=HUNG_SECONDS * 1000
    )
    actor_endpoints.register(database, [{"name": name} for name in ACTORS])
    actors = tuple(name.replace("_", "-") for name in ACTORS)
    offered = actors[:2]
    process = ActorProcess(session_id="one", host="h", pid=7, threads=2, endpoints=offered, is_connected=True)
    actor_processes.write(database, "wrk", process)
    for name, limits in LIMITS.items():
        for number in range(2):
            register(api, f"{name}-{number}", limits=limits)
    for name in offered:
        limited = api.send("PATCH", f"/endpoints/{name}", json={"limits": LIMITS["full-of-keys"]})
        assert limited.status_code == 200, limited.json
    names = [*(f"{name}-{number}" for name in LIMITS for number in range(2)), *actors]
    for name in names:
        for number in range(3):
            created(api, one_shot(f"{name}-{number}", endpoint=name))
    rows.move_to_one_shard(database)
    for name in names:
        if not name.startswith("idle"):
            database.fetch(RUN, {"endpoint": name})


@pytest.mark.postgresql_only  # CockroachDB reads each partition apart
@pytest.mark.usefixtures("_waiting")
def test_list_of_many_partitions_runs_few_statements(
    app: Flask, statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions_page, "SECONDS_OF_REASONS", HUNG_SECONDS)
    monkeypatch.setattr(executions_page, "ROWS", 100)
    shown = Visitor(app, Scope.ADMIN).get("/console/executions")
    assert {words for words in WORDS if words not in shown} == set()
    assert with_many_statements(app, statements, ["/console/executions"]) == {}
