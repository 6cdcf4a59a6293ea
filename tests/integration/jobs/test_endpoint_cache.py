"""Creation of a job by one statement: a cache of endpoints that is never out of date."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.queue.jobs.endpoint_cache import EndpointCache
from tests.integration.client import Api, another_process, problem, services
from tests.integration.registered import (
    INPUT,
    SCHEMA,
    created,
    cron,
    delayed,
    http_endpoint,
    one_shot,
    register,
    register_all,
)
from tests.integration.statements import Statements


@pytest.mark.parametrize(("kind", "number"), [("immediate", 1), ("delayed", 1), ("cron", 2)])
def test_job_is_created_by_one_statement(api: Api, statements: Statements, kind: str, number: int) -> None:
    """A repeating job takes a second statement, which reads the database's time for the first tick."""
    bodies = {
        "immediate": one_shot,
        "delayed": lambda key: delayed(key, "2090-01-01T00:00:00Z"),
        "cron": lambda key: cron(idempotency_key=key),
    }
    register_all(api)
    created(api, one_shot("warm-up"))
    statements.clear()
    for created_already in range(3):
        created(api, bodies[kind](f"k{created_already}"))
        assert len(statements.texts) == number * (created_already + 1), statements.texts
    # In autocommit the driver sends neither BEGIN nor COMMIT: one statement is one round trip.
    assert all(statements.in_autocommit)


@pytest.mark.postgresql_only
def test_driver_sends_nothing_after_the_statement(app: Flask, api: Api) -> None:
    """The server shows statements that the driver sends by itself; SQLAlchemy's events do not."""
    register_all(api)
    created(api, one_shot("k"))
    watcher = db.connect(services(app).settings.database_url, pool_size=1, application_name="te-test")
    last = watcher.fetch(
        text(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'te-web' "
            "ORDER BY state_change DESC LIMIT 1"
        )
    )
    watcher.close()
    assert last[0].query.startswith("EXECUTE te_jobs_create_one_shot_")


def test_job_uses_the_version_created_by_another_process(api: Api) -> None:
    """The inserting statement compares the cached version with the stored version."""
    register(api)
    created(api, one_shot("a"))
    body = {key: value for key, value in http_endpoint(retry_policy={"max_attempts": 5}).items() if key != "name"}
    with another_process(api) as other:
        assert other.put("/endpoints/target", body).status_code == 200
    assert created(api, one_shot("b"))["endpoint_version"] == 2


def test_job_is_checked_against_the_payload_spec_changed_by_another_process(api: Api) -> None:
    register_all(api)
    created(api, one_shot("a"))
    with another_process(api) as other:
        strict = SCHEMA | {"required": ["user_id", "order_id"]}
        assert other.put("/payload-specs/spec", {"schema": strict}).status_code == 200
        problem(api.post("/jobs", one_shot("b")), 422, "INPUT_VALIDATION_FAILED")
        assert other.put("/payload-specs/spec", {"schema": {}}).status_code == 200
        created(api, one_shot("b", input={"user_id": 5}))


def test_endpoint_deleted_by_another_process_is_not_found(api: Api) -> None:
    register(api)
    job = created(api, one_shot("a"))
    api.post(f"/jobs/{job['job_id']}/cancel")
    with another_process(api) as other:
        assert other.delete("/endpoints/target").status_code == 204
        problem(api.post("/jobs", one_shot("b")), 404, "ENDPOINT_NOT_FOUND")
        register(other)
    assert created(api, one_shot("b"))["endpoint_version"] == 2


def test_cache_is_bounded(api: Api, database: Database, statements: Statements) -> None:
    cache = EndpointCache(database, max_entries=2)
    for name in ("a", "b", "c"):
        register(api, name)
        cache.accepting(name, INPUT)
    statements.clear()
    cache.accepting("c", INPUT)
    assert statements.texts == []
    cache.accepting("a", INPUT)
    assert len(statements.texts) == 1
