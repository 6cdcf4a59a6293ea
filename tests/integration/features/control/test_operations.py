"""GET /health/operations: states in which nothing is broken but nothing is delivered."""

import pytest
from sqlalchemy import text

from app.features.queues import store as queues_store
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.integration.client import Api, problem
from tests.integration.registered import created, one_shot, register
from tests.integration.statements import Statements


def test_operations_list_unserved_queues_and_paused_endpoints(
    api: Api, database: Database, statements: Statements
) -> None:
    for name in ("target", "other"):
        register(api, name)
    nothing = {"unserved_queues": [], "open_breakers": 0, "paused_endpoints": [], "paused_queues": []}
    assert api.get("/health/operations").json == nothing
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    worker_lease.register(database, worker_id="dead", host="h", pid=1, queues=["bulk"], capacity=9, lease_ms=0)
    created(api, one_shot("served"))
    for number in range(2):
        created(api, one_shot(f"bulk-{number}", queue="bulk"))
    created(api, one_shot("later", queue="slow", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"))
    database.fetch(text("UPDATE executions SET status = 'QUEUED' WHERE queue = 'slow'"))
    created(api, one_shot("z", queue="zulu"))
    for number in range(16):
        created(api, one_shot(f"served-{number}"))
    # Each unserved queue has executions in two shards, the served queue in all 16.
    database.fetch(text("UPDATE executions SET shard = 1 WHERE idempotency_key = 'bulk-1'"))
    for number in range(16):
        params = {"shard": number, "key": f"served-{number}"}
        database.fetch(text("UPDATE executions SET shard = :shard WHERE idempotency_key = :key"), params)
    paused_at = api.post("/endpoints/other/pause").json["paused_at"]
    statements.clear()
    found = api.get("/health/operations").json
    # A further statement for the second shard of a queue, which only CockroachDB reads at once.
    of_unserved = 3 if database.is_cockroach else 4
    assert len(statements.texts) == 1 + 2 + 5 + of_unserved + 4, (
        "queues of workers, named and paused queues, a hop per queue, all shards per unserved queue, breakers, pauses"
    )
    assert found["paused_endpoints"] == [{"name": "other", "paused_at": paused_at, "paused_by": "test"}]
    assert [(queue["queue"], queue["due"]) for queue in found["unserved_queues"]] == [("bulk", 2), ("zulu", 1)]
    assert all(queue["oldest_due_seconds"] >= 0 for queue in found["unserved_queues"])
    problem(Api(api.app, None).get("/health/operations"), 401, "UNAUTHORIZED")


def test_pause_has_no_author_once_the_audit_log_has_forgotten_it(api: Api, database: Database) -> None:
    register(api, "other")
    api.send("PATCH", "/endpoints/other", json={"priority": 7})
    api.post("/endpoints/other/pause")
    database.fetch(text("DELETE FROM audit_log WHERE occurred_at = (SELECT max(occurred_at) FROM audit_log)"))
    assert [each["paused_by"] for each in api.get("/health/operations").json["paused_endpoints"]] == [None]


def test_author_of_a_pause_is_who_began_it(api: Api, database: Database) -> None:
    register(api, "other")
    register(api)
    created(api, one_shot("waits", queue="bulk"))
    second = Api(api.app, api_keys.create(database, "second", [Scope.ADMIN], None))

    def authors() -> tuple[str | None, str | None]:
        found = {each["queue"]: each["paused_by"] for each in api.get("/queues").json["items"]}
        return api.get("/endpoints/other").json["paused_by"], found["bulk"]

    for path in ("/endpoints/other", "/queues/bulk"):
        api.post(f"{path}/pause")
        second.post(f"{path}/pause")  # changes nothing
    second.send("PATCH", "/endpoints/other", json={"priority": 7})
    assert authors() == ("test", "test")
    for path in ("/endpoints/other", "/queues/bulk"):
        api.post(f"{path}/resume")
        second.post(f"{path}/pause")
    assert authors() == ("second", "second")
    assert [each["paused_by"] for each in api.get("/health/operations").json["paused_endpoints"]] == ["second"]


@pytest.mark.postgresql_only
def test_due_executions_of_all_shards_are_counted_up_to_a_bound(database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 20_000, shards=16)
    database.fetch(text("UPDATE executions SET queue = 'a' WHERE shard = 3"))
    database.fetch(text("UPDATE executions SET run_at = run_at - INTERVAL '1 hour' WHERE shard = 7"))
    database.fetch(text("ANALYZE executions"))
    in_all_shards, in_one_shard = queues_store.unserved(database)  # the queue of a transport is read first
    most = queues_store.MAX_UNSERVED
    assert [(found.queue, found.due) for found in (in_one_shard, in_all_shards)] == [("a", most), ("http", most)]
    assert in_all_shards.oldest_due_seconds is not None
    assert in_all_shards.oldest_due_seconds >= 3600
    in_one_shard, in_all_shards = queues_store.read(database, {"a": 0, "http": 0}, 16)
    assert (in_one_shard.due, in_all_shards.due) == (1_000, queues_store.MAX_DUE)
