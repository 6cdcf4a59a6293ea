"""`GET /api-keys`: keys without their values, for administrators only."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api, problem


def test_keys_are_listed_with_their_scopes_and_states(api: Api, database: Database) -> None:
    later = rows.database_now(database) + timedelta(days=1)
    reader = api_keys.create(database, "reader", [Scope.READ], later)
    old = api_keys.create(database, "old", [Scope.JOBS_SEND, Scope.READ], later)
    revoked = api_keys.create(database, "revoked", [Scope.ADMIN], None)
    database.fetch(text("UPDATE api_keys SET expires_at = now() WHERE name = 'old'"))
    api_keys.revoke(database, api_keys.id_in(revoked))
    answer = api.get("/api-keys")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    shown = {key["name"]: key for key in answer.json["items"]}
    assert [*shown] == ["revoked", "old", "reader", "test"]
    assert {name: key["state"] for name, key in shown.items()} == {
        "revoked": "revoked",
        "old": "expired",
        "reader": "active",
        "test": "active",
    }
    assert (shown["old"]["scopes"], shown["reader"]["expires_at"] is None) == (["jobs:send", "read"], False)
    assert shown["reader"]["last_used_at"] is None
    assert shown["test"]["last_used_at"] is not None
    body = answer.get_data(as_text=True)
    assert all(key not in body and api_keys.hash_of(key) not in body for key in (reader, old, revoked))


@pytest.mark.parametrize("scope", [Scope.READ, Scope.JOBS_WRITE, Scope.JOBS_SEND])
def test_only_an_administrator_lists_keys(api: Api, database: Database, scope: Scope) -> None:
    other = Api(api.app, api_keys.create(database, "other", [scope], None))
    problem(other.get("/api-keys"), 403, "FORBIDDEN")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_no_key_is_made_or_revoked_by_http(api: Api, method: str) -> None:
    problem(api.send(method, "/api-keys", json={"name": "x", "scopes": ["admin"]}), 405, "METHOD_NOT_ALLOWED")
