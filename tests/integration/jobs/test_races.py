"""Concurrent requests, at both isolation levels: no order of their statements leaves an invalid reference."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from app.kernel.config import Settings
from app.kernel.db import Database
from tests.integration.client import SECRET_KEY, Api, administrator, running, services
from tests.integration.registered import created, cron, http_endpoint, one_shot, register
from tests.racing import at_once

ROUNDS = 12
LEVELS = {"read committed": "", "serializable": "?options=-c%20default_transaction_isolation%3Dserializable"}


@pytest.fixture(params=LEVELS)
def api(request: pytest.FixtureRequest, database_url: str) -> Iterator[Api]:
    """Yield a client of an application whose transactions run at this isolation level."""
    url = database_url + LEVELS[request.param]
    with running(Settings(database_url=url, secret_encryption_key=SECRET_KEY, db_pool_size=10)) as app:
        database = services(app).database
        (level,) = database.fetch(text("SHOW transaction_isolation"))[0]
        assert level == request.param
        yield administrator(app)


@pytest.fixture
def database(api: Api) -> Database:
    return services(api.app).database


def statuses(*requests: Callable[[], TestResponse]) -> list[int]:
    """Send requests at the same instant and return the statuses of the answers, in order."""
    return [answer.status_code for answer in at_once(*requests)]


def test_concurrent_requests_with_one_key_create_one_job(api: Api, database: Database) -> None:
    register(api)
    for number in range(ROUNDS):
        body = one_shot(f"k{number}")
        assert sorted(statuses(*[partial(api.post, "/jobs", body)] * 6)) == [200] * 5 + [201]
    assert database.fetch(text("SELECT count(*) AS n FROM executions"))[0].n == ROUNDS


EVERY = {"endpoint": "target", "trigger": "INTERVAL", "every": "1h"}


@pytest.mark.parametrize("job", [one_shot("k"), cron(), EVERY], ids=["one-shot", "cron", "interval"])
def test_no_job_is_created_for_a_deleted_endpoint(api: Api, database: Database, job: dict[str, str]) -> None:
    """Either the job finds no endpoint, or the deletion finds the job."""
    outcomes = set()
    for number in range(ROUNDS):
        name = register(api, f"e{number}")
        created(api, one_shot("warm-up", endpoint=name))
        database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
        body = job | {"endpoint": name}
        outcomes.add(tuple(statuses(partial(api.post, "/jobs", body), partial(api.delete, f"/endpoints/{name}"))))
        database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL"))
    assert outcomes <= {(201, 409), (404, 204)}


def test_no_endpoint_refers_to_a_deleted_resource(api: Api) -> None:
    """Registration of an endpoint races with the deletion of its secret, config and payload spec."""
    for number in range(ROUNDS):
        api.post("/secrets", {"name": "token", "value": "value-v"})
        api.post("/configs", {"name": "config", "values": {}})
        api.post("/payload-specs", {"name": "spec", "schema": {}})
        spec = {"url": "http://127.0.0.1:9", "method": "POST", "headers": {"A": "{{secret.token}}"}}
        body = http_endpoint(f"e{number}", spec=spec, config="config", payload_spec="spec")
        made, *deleted = statuses(
            partial(api.post, "/endpoints", body),
            partial(api.delete, "/secrets/token"),
            partial(api.delete, "/configs/config"),
            partial(api.delete, "/payload-specs/spec"),
        )
        assert (made, deleted) == (201, [409, 409, 409]) or (made == 422 and 204 in deleted)
        api.delete(f"/endpoints/e{number}")
        for path in ("/secrets/token", "/configs/config", "/payload-specs/spec"):
            api.delete(path)


def test_no_unfinished_job_refers_to_a_deleted_resource(api: Api, database: Database) -> None:
    """Jobs of the old version race with a new version that needs no config, and with the deletion of the config."""
    spec = {"url": "http://127.0.0.1:9", "method": "POST", "headers": {"A": "{{secret.token}}"}}
    outcomes = set()
    for number in range(ROUNDS):
        api.post("/secrets", {"name": "token", "value": "value-v"})
        api.post("/configs", {"name": "config", "values": {}})
        name = register(api, f"e{number}", spec=spec, config="config")
        created(api, one_shot("warm-up", endpoint=name))
        database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
        changed = {key: value for key, value in http_endpoint().items() if key != "name"}
        posts = [partial(api.post, "/jobs", one_shot(f"k{key}", endpoint=name)) for key in range(3)]
        put = partial(api.put, f"/endpoints/{name}", changed)
        deletions = [partial(api.delete, path) for path in ("/secrets/token", "/configs/config")]
        *made, _put, secret, config, secret_again, config_again = statuses(*posts, put, *deletions * 2)
        deleted = {secret, secret_again, config, config_again}
        assert made == [201] * 3
        outcomes.update(deleted)
        needed = database.fetch(text(NEEDED), {"endpoint": name})
        assert not needed or deleted == {409}
        database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
        for path in (f"/endpoints/{name}", "/secrets/token", "/configs/config"):
            api.delete(path)
    assert outcomes <= {204, 404, 409}


NEEDED = """
    SELECT x.job_id FROM executions x
      JOIN endpoint_versions v ON v.endpoint = x.endpoint AND v.version = x.endpoint_version
     WHERE x.endpoint = :endpoint AND x.completed_at IS NULL AND v.config_ref IS NOT NULL
"""


def test_concurrent_changes_of_an_endpoint_get_distinct_versions(api: Api, database: Database) -> None:
    register(api)
    body = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert statuses(*[partial(api.put, "/endpoints/target", body)] * 6) == [200] * 6
    versions = database.fetch(text("SELECT version FROM endpoint_versions ORDER BY version"))
    assert [row.version for row in versions] == list(range(1, 8))


def test_concurrent_requests_create_a_name_once(api: Api) -> None:
    for path, body in (
        ("/configs", {"name": "x", "values": {}}),
        ("/secrets", {"name": "x", "value": "value-v"}),
        ("/payload-specs", {"name": "x", "schema": {}}),
        ("/endpoints", http_endpoint("x")),
    ):
        assert sorted(statuses(*[partial(api.post, path, body)] * 4)) == [201, 409, 409, 409]


@pytest.mark.postgresql_only
def test_concurrent_cancels_by_job_and_by_execution_do_not_deadlock(api: Api, database: Database) -> None:
    """All statements lock executions before jobs, also those that complete executions."""
    register(api)
    for number in range(ROUNDS):
        job = created(api, one_shot(f"k{number}"))
        paths = [f"/jobs/{job['job_id']}/cancel", f"/executions/{job['execution']['execution_id']}/cancel"]
        cancels = [partial(api.post, path) for path in paths]
        assert statuses(*cancels * 2) == [200] * 4
    (row,) = database.fetch(text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    assert row.deadlocks == 0
