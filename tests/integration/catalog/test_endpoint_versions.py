"""Versions of endpoints: each as it was stored, with its author."""

from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, problem, read_all_pages
from tests.integration.registered import http_endpoint, register, register_all


def test_each_version_has_its_definition_and_its_author(api: Api, database: Database) -> None:
    register_all(api)
    bot = Api(api.app, api_keys.create(database, "deploy-bot", [Scope.ADMIN], None))
    changed = http_endpoint("target", retry_policy={"max_attempts": 2})
    assert bot.put("/endpoints/target", changed).status_code == 200
    # Live settings make no version.
    assert bot.send("PATCH", "/endpoints/target", json={"priority": 9}).status_code == 200
    second, first = api.get("/endpoints/target/versions").json["items"]
    assert (second["version"], second["actor"], second["spec"]) == (2, "deploy-bot", changed["spec"])
    assert (second["retry_policy"], second["secrets"], second["config"]) == ({"max_attempts": 2}, [], None)
    assert (first["version"], first["actor"], first["retry_policy"]) == (1, "test", None)
    assert (first["payload_spec"], first["config"], first["secrets"]) == ("spec", "config", ["token"])
    assert api.get("/endpoints/target/versions/1").json == first
    assert api.get("/endpoints/target/versions/2").json == second


def test_pages_list_versions_from_the_newest_on(registered: Api) -> None:
    for number in range(2, 9):
        changed = http_endpoint("target", retry_policy={"max_attempts": number})
        assert registered.put("/endpoints/target", changed).status_code == 200
    assert read_all_pages(registered, "/endpoints/target/versions", "version") == [*range(8, 0, -1)]


def test_versions_of_a_deleted_and_of_a_restored_endpoint_stay(registered: Api) -> None:
    assert registered.delete("/endpoints/target").status_code == 204
    assert read_all_pages(registered, "/endpoints/target/versions", "version") == [1]
    register(registered)
    assert [each["actor"] for each in registered.get("/endpoints/target/versions").json["items"]] == ["test", "test"]
    assert registered.get("/endpoints/target/versions/1").json["version"] == 1


def test_author_is_null_once_the_audit_entry_was_deleted(registered: Api, database: Database) -> None:
    database.fetch(text("DELETE FROM audit_log"))
    assert registered.get("/endpoints/target/versions/1").json["actor"] is None


def test_author_is_of_the_version_and_not_of_another_endpoint(api: Api, database: Database) -> None:
    register(api)
    register(api, "other")
    database.fetch(text("UPDATE audit_log SET occurred_at = now(), actor_name = resource"))
    database.fetch(text("UPDATE endpoint_versions SET created_at = (SELECT max(occurred_at) FROM audit_log)"))
    for name in ("target", "other"):
        assert api.get(f"/endpoints/{name}/versions/1").json["actor"] == name


@each_case("version", ["2", "0", "-1", "x", "9" * 30, "1.0"])
def test_absent_version_is_not_found(registered: Api, version: str) -> None:
    problem(registered.get(f"/endpoints/target/versions/{version}"), 404, "ENDPOINT_VERSION_NOT_FOUND")


def test_endpoint_that_never_existed_is_not_found(registered: Api) -> None:
    problem(registered.get("/endpoints/nope/versions"), 404, "ENDPOINT_NOT_FOUND")
    problem(registered.get("/endpoints/nope/versions/1"), 404, "ENDPOINT_NOT_FOUND")
