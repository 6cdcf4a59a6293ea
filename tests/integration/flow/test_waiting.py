"""Reasons for which a due execution waits: explained in one sentence, from bounded reads."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import TextClause, text

from app.features.limits import reasons as limits_reasons
from app.features.limits import store as limits_store
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.processes import worker_lease
from app.kernel.sql import OF_SEVERAL
from app.queue.reading import several_explanations, waiting_reasons
from tests import rows
from tests.integration.client import Api
from tests.integration.registered import created, one_shot, register
from tests.integration.statements import Statements

RATE = {"count": 2, "per": "10m", "burst": 2}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings with one shard, because executions ahead are counted in the shard of an execution."""
    return replace(settings, queue_shards=1)


@pytest.fixture(autouse=True)
def worker(database: Database) -> None:
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


def create(api: Api, key: str, **fields: Any) -> str:
    execution_id: str = created(api, one_shot(key, **fields))["execution"]["execution_id"]
    return execution_id


def explained(api: Api, execution_id: str) -> Any:
    return api.get(f"/executions/{execution_id}/explain").json


def patch(api: Api, **flow: Any) -> None:
    assert api.send("PATCH", "/endpoints/target", json=flow).status_code == 200


def run(database: Database, execution_id: str) -> None:
    """Set the execution RUNNING, as a claim does."""
    query = "UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1"
    database.fetch(text(f"{query} WHERE execution_id = :id"), {"id": execution_id})


def use_up_rate(database: Database, limiter: str, *, tokens_ms: int) -> None:
    """Set the instant up to which the tokens of a limiter are used, in milliseconds from now."""
    query = """INSERT INTO gates (gate_id, tat_ns)
               VALUES (:limiter, CAST(EXTRACT(EPOCH FROM now()) * 1000 + :ms AS BIGINT) * 1000000)"""
    database.fetch(text(query + " RETURNING gate_id"), {"limiter": limiter, "ms": tokens_ms})


def test_execution_of_a_paused_endpoint_is_explained(api: Api) -> None:
    register(api)
    execution_id = create(api, "a")
    assert explained(api, execution_id)["reason"] == "NEXT_IN_QUEUE"
    paused_at = api.post("/endpoints/target/pause").json["paused_at"]
    found = explained(api, execution_id)
    assert (found["reason"], found["since"]) == ("ENDPOINT_PAUSED", paused_at)
    assert "its endpoint 'target' is paused" in found["explanation"]
    assert api.post("/endpoints/target/resume").status_code == 200
    assert explained(api, execution_id)["reason"] == "NEXT_IN_QUEUE"


def test_execution_behind_an_open_breaker_is_explained(api: Api, database: Database) -> None:
    register(api)
    execution_id = create(api, "a")
    database.fetch(
        text(
            "INSERT INTO breakers (target, state, reason, open_until, watched_until) "
            "VALUES ('http:a:80', 'open', 'FAILURES', now() + INTERVAL '1 hour', now()) RETURNING target"
        )
    )
    assert explained(api, execution_id)["reason"] == "NEXT_IN_QUEUE"
    lead = "INSERT INTO breaker_endpoints (target, endpoint) VALUES ('http:a:80', 'target') RETURNING target"
    database.fetch(text(lead))
    found = explained(api, execution_id)
    assert (found["reason"], found["details"]["target"]) == ("BREAKER_OPEN", "http:a:80")
    assert "whose breaker is open until 20" in found["explanation"]
    assert found["until"] > found["since"]
    assert api.get("/health/operations").json["open_breakers"] == 1
    database.fetch(text("UPDATE breakers SET state = 'half_open'"))
    found = explained(api, execution_id)
    assert (found["reason"], found["until"]) == ("BREAKER_OPEN", None)
    assert "a single delivery probes http:a:80" in found["explanation"]
    database.fetch(text("UPDATE breakers SET state = 'closed'"))
    assert explained(api, execution_id)["reason"] == "NEXT_IN_QUEUE"


def test_executions_ahead_have_the_same_endpoint_and_key_or_a_higher_priority(api: Api) -> None:
    register(api, limits={"per_key": {"key": "{{input.user_id}}"}})
    register(api, "other")
    create(api, "elsewhere", endpoint="other")
    create(api, "key", input={"user_id": "else"})
    create(api, "low", priority=1)
    create(api, "first")
    execution_id = create(api, "it")
    create(api, "behind")
    assert explained(api, execution_id)["details"]["ahead"] == 1
    for number in range(2):
        create(api, f"high-{number}", priority=200 + number)
    create(api, "not yet", priority=255, trigger="DELAYED", run_at="2090-01-01T00:00:00Z")
    found = explained(api, execution_id)
    assert (found["reason"], found["details"]["ahead"]) == ("BEHIND_OTHERS", 3)
    assert "3 of its endpoint, earlier or of a higher priority" in found["explanation"]


def test_execution_behind_a_concurrency_limit_is_explained(api: Api, database: Database) -> None:
    register(api, limits={"max_in_flight": 2, "per_key": {"key": "{{input.user_id}}", "max_in_flight": 1}})
    run(database, create(api, "running"))
    create(api, "before")
    own, other = create(api, "own"), create(api, "other", input={"user_id": "u_2"})
    found = explained(api, own)
    assert (found["reason"], found["until"]) == ("CONCURRENCY_LIMITED", None)
    assert "its key 'u_1' has reached max_in_flight (1), and 1 go before it" in found["explanation"]
    assert explained(api, other)["reason"] == "NEXT_IN_QUEUE"
    run(database, other)
    third = explained(api, create(api, "third", input={"user_id": "u_3"}))
    assert "its endpoint has reached max_in_flight (2), and 0 go before it" in third["explanation"]
    assert third["details"] | {"max_in_flight": 2, "in_flight": 2} == third["details"]
    patch(api, limits=None)
    assert explained(api, own)["reason"] == "BEHIND_OTHERS"


def test_start_behind_a_rate_limit_is_predicted(api: Api, database: Database) -> None:
    register(api, limits={"rate": RATE})
    each = [create(api, f"k{number}") for number in range(4)]
    assert [explained(api, one)["reason"] for one in each] == ["NEXT_IN_QUEUE", "BEHIND_OTHERS"] + 2 * ["RATE_LIMITED"]
    third, fourth = (explained(api, one) for one in each[2:])
    assert "its endpoint may start 2 per 10m: the next at 20" in third["explanation"]
    assert "and 2 go before it" in third["explanation"]
    assert third["until"] < fourth["until"]
    use_up_rate(database, "target", tokens_ms=600_000)
    first = explained(api, each[0])
    assert (first["reason"], first["details"]["tokens"]) == ("RATE_LIMITED", 0)
    assert first["since"] < first["until"] < explained(api, each[1])["until"]


def test_start_behind_a_rate_shared_by_keys_or_shards_is_not_predicted(api: Api, database: Database) -> None:
    """Keys and shards take turns, so the executions ahead in the own partition do not determine the start."""
    register(api, limits={"rate": RATE, "per_key": {"key": "{{input.user_id}}"}})
    use_up_rate(database, "target", tokens_ms=600_000)
    own = create(api, "own")
    assert explained(api, own)["until"] is not None
    other = create(api, "other", input={"user_id": "u_2"})
    for one in (own, other):
        found = explained(api, one)
        assert (found["reason"], found["until"]) == ("RATE_LIMITED", None)
        assert "and 0 go before it, while further executions take turns with it." in found["explanation"]
    run(database, other)
    assert explained(api, own)["until"] is not None
    database.fetch(text("UPDATE executions SET shard = 1 WHERE execution_id = :id RETURNING 1"), {"id": own})
    another = create(api, "another")
    assert explained(api, another)["until"] is None
    patch(api, limits={"per_key": {"key": "{{input.user_id}}", "rate": RATE}})
    use_up_rate(database, "target=u_1", tokens_ms=600_000)
    found = explained(api, another)
    assert (found["until"], "its key 'u_1'" in found["explanation"]) == (None, True)
    database.fetch(text("UPDATE executions SET shard = 0 RETURNING 1"))
    assert explained(api, another)["until"] is not None
    rows.add_executions(database, waiting_reasons.MAX_AHEAD + 1, due_in=timedelta(hours=-1))
    database.fetch(text("UPDATE executions SET limit_key = '=u_1', shard = 0 RETURNING 1"))
    assert explained(api, another)["until"] is None, "nobody knows how many more go first"


def test_invalid_limits_in_a_row_are_ignored(api: Api, database: Database) -> None:
    """Workers ignore invalid limits too."""
    register(api)
    execution_id = create(api, "a")
    database.fetch(text("""UPDATE endpoints SET limits = CAST('{"rate": {"per": "soon"}}' AS JSONB) RETURNING 1"""))
    assert explained(api, execution_id)["reason"] == "NEXT_IN_QUEUE"
    assert api.get("/endpoints/target/limits").json["gates"] == []


def test_execution_behind_a_used_up_sliding_window_is_explained(api: Api, database: Database) -> None:
    register(api, limits={"rate": {"count": 2, "per": "10m", "window": "sliding"}})
    one, two = create(api, "a"), create(api, "b")
    assert explained(api, one)["reason"] == "NEXT_IN_QUEUE"
    query = """INSERT INTO gate_windows (gate_id, slot, bucket, started)
               VALUES ('target', 0, CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT) * 1000000, 2) RETURNING slot"""
    database.fetch(text(query))
    found = explained(api, one)
    assert (found["reason"], found["details"]["tokens"]) == ("RATE_LIMITED", 0)
    assert found["until"] > found["since"]
    assert explained(api, two)["until"] is None


def test_limits_of_an_endpoint_and_of_a_key_are_shown(api: Api, database: Database) -> None:
    register(api)
    assert api.get("/endpoints/target/limits").json == {"paused_at": None, "gates": []}
    patch(api, limits={"max_in_flight": 3, "rate": RATE, "per_key": {"key": "{{input.user_id}}", "max_in_flight": 1}})
    run(database, create(api, "a"))
    create(api, "b")
    create(api, "c", input={"user_id": "u_2"})
    create(api, "later", trigger="DELAYED", run_at="2090-01-01T00:00:00Z")
    own = {"key": None, "max_in_flight": 3, "in_flight": 1, "rate": RATE, "tokens": 2, "next_at": None, "waiting": 2}
    shown = api.get("/endpoints/target/limits").json
    assert shown == {"paused_at": None, "gates": [own]}
    keyed = {"key": "u_1", "max_in_flight": 1, "in_flight": 1, "rate": None, "tokens": None, "next_at": None}
    assert api.get("/endpoints/target/limits", key="u_1").json["gates"] == [own, keyed | {"waiting": 1}]
    nobody = keyed | {"key": "u_9", "in_flight": 0, "waiting": 0}
    assert api.get("/endpoints/target/limits", key="u_9").json["gates"][1] == nobody
    use_up_rate(database, "target", tokens_ms=900_000)
    (spent,) = api.get("/endpoints/target/limits").json["gates"]
    assert spent["tokens"] == 0
    assert spent["next_at"] is not None
    assert api.get("/endpoints/nope/limits").status_code == 404


def test_explanation_takes_five_statements(api: Api, statements: Statements) -> None:
    register(api, limits={"max_in_flight": 1, "rate": RATE, "per_key": {"key": "{{input.user_id}}", "rate": RATE}})
    execution_id = create(api, "a")
    create(api, "b", priority=200)
    statements.clear()
    explained(api, execution_id)
    assert len(statements.texts) == 1 + 1 + 1 + 2, "facts, workers and executions ahead, breakers, 2 for the limiters"


@pytest.mark.postgresql_only
def test_executions_ahead_are_counted_by_ranges_of_an_index(database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 30_000)
    database.fetch(text("ANALYZE executions"))
    partition = {"queue": "http", "shard": 0, "endpoint": "target", "limit_key": "", "priority": 128, "most": 1001}
    partition |= {"most_above": waiting_reasons.MAX_ABOVE}

    def plan(statement: TextClause, **params: Any) -> str:
        names = statement.compile().params.keys()
        asked = {name: value for name, value in (partition | params).items() if name in names}
        return "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + statement.text), asked))

    position = {"run_at": EPOCH, "execution_id": "x"}
    assert "Seq Scan on executions" not in plan(limits_reasons.SHARED) + plan(limits_reasons.SHARED_BY_KEY)
    line, types = OF_SEVERAL[several_explanations.LINE]
    several = {name: [partition[name]] * 2 for name in types} | {"nth": [0, 1], "executions": ["x"]}
    for found in (
        plan(waiting_reasons.AHEAD, **position),
        plan(several_explanations.LINE, executions=["x"]),
        plan(line, **several),
    ):
        assert found.count("idx_executions_lanes") == 2
        assert "Sort" not in found
        assert "Seq Scan on executions" not in found
    assert "Seq Scan on executions" not in plan(limits_store.WAITING_OF_KEY, shards=[0])
