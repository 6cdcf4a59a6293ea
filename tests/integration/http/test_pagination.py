"""Pagination: newest first, each item exactly once."""

import hashlib
from typing import Any

import pytest
from itsdangerous import URLSafeSerializer
from sqlalchemy import text

from app.kernel.access import signing_key
from app.kernel.access.signing_key import SigningKey
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.catalog.things import EACH_RESOURCE
from tests.integration.client import Api, another_process, pointers, problem, read_all_pages
from tests.integration.registered import created, cron, one_shot, register


@EACH_RESOURCE
def test_catalog_lists_are_paged_newest_first(api: Api, path: str, one: dict[str, Any], two: object) -> None:
    names = [f"n-{number}" for number in range(8)]
    for name in names:
        assert api.post(path, one | {"name": name}).status_code == 201
    assert read_all_pages(api, path, "name") == names[::-1]
    assert read_all_pages(api, path, "name", limit=8) == names[::-1]


def test_paging_is_stable_while_jobs_are_created(api: Api) -> None:
    register(api)
    old = [created(api, one_shot(f"old-{number}"))["job_id"] for number in range(7)]
    first = api.get("/jobs", limit=3).json
    for number in range(5):
        created(api, one_shot(f"new-{number}"))
    second = api.get("/jobs", limit=3, cursor=first["cursor"]).json
    third = api.get("/jobs", limit=3, cursor=second["cursor"]).json
    listed = [job["job_id"] for page in (first, second, third) for job in page["items"]]
    assert listed == old[::-1]
    assert third["cursor"] is None


def test_rows_of_the_same_instant_are_listed_once(api: Api, database: Database) -> None:
    """Rows inserted by one statement share `created_at`, so the id decides the order."""
    rows.add_endpoint(database)
    rows.add_executions(database, 20)
    found = read_all_pages(api, "/jobs", "job_id")
    assert len(found) == len(set(found)) == 20


def test_job_list_applies_its_filters(api: Api) -> None:
    for name in ("target", "other"):
        register(api, name)
    now = created(api, one_shot("now"))
    later = created(api, one_shot("later", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"))
    tick = created(api, cron(endpoint="other"))
    api.post(f"/jobs/{now['job_id']}/cancel")

    def ids(**filters: str) -> set[str]:
        return set(read_all_pages(api, "/jobs", "job_id", limit=1, **filters))

    assert ids() == {now["job_id"], later["job_id"], tick["job_id"]}
    assert ids(status="RETIRED") == {now["job_id"]}
    assert ids(status="ACTIVE") == {later["job_id"], tick["job_id"]}
    assert ids(trigger="CRON") == {tick["job_id"]}
    assert ids(endpoint="target", trigger="DELAYED") == {later["job_id"]}
    assert ids(endpoint="nope") == set()
    assert ids(created_after=now["created_at"]) == {later["job_id"], tick["job_id"]}
    assert ids(created_before=tick["created_at"], created_after=now["created_at"]) == {later["job_id"]}
    assert ids(created_after=later["created_at"].replace("Z", "+00:00")) == {tick["job_id"]}


@each_case(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.0", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%D9%A1", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=%00", None),
        ("cursor=%F0%9F%98%80", "cursor"),
        ("cursor=" + "A" * 3000, "cursor"),
        ("page=2", "page"),
    ],
)
@each_case("path", ["/jobs", "/configs"])
def test_invalid_query_is_refused(shared_api: Api, path: str, query: str, parameter: str | None) -> None:
    error = problem(shared_api.send("GET", f"{path}?{query}"), 400, "INVALID_REQUEST")
    assert parameter is None or pointers(error) == [parameter]


@pytest.mark.parametrize(
    "query", ["status=active", "status=", "trigger=SOON", "created_after=yesterday", "created_before=2030-01-01"]
)
def test_invalid_filter_is_refused(shared_api: Api, query: str) -> None:
    error = problem(shared_api.send("GET", f"/jobs?{query}"), 400, "INVALID_REQUEST")
    assert pointers(error) == [query.split("=", maxsplit=1)[0]]


def test_changed_cursor_is_refused(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.post("/configs", {"name": name, "values": {}})
    cursor = api.get("/configs", limit=1).json["cursor"]
    assert api.get("/configs", limit=2, cursor=cursor).status_code == 200
    changed = [cursor[:-1], cursor + "A", cursor + "=", cursor[::-1], cursor.lower()]
    changed += [cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1 :] for i in range(len(cursor))]
    changed += [cursor.replace(".", f".{junk}") for junk in ("!", "=", " ")]
    for cursor in changed:
        error = problem(api.get("/configs", cursor=cursor), 400, "INVALID_REQUEST")
        assert pointers(error) == ["cursor"]


def forged(list_: str, key: str) -> str:
    """Return a cursor signed with a guessed key."""
    signer = URLSafeSerializer("te-cursor", salt=list_, signer_kwargs={"digest_method": hashlib.sha256})
    made = signer.dumps([0, key])
    assert isinstance(made, str)
    return made


@each_case("path", ["/configs", "/jobs", "/jobs/{job}/versions", "/executions/{execution}/attempts"])
def test_forged_cursor_is_refused(registered: Api, path: str) -> None:
    job = created(registered, one_shot(path))
    path = path.format(job=job["job_id"], execution=job["execution"]["execution_id"])
    for key in ("1", "x", "\0", "9" * 30, ""):
        error = problem(registered.get(path, cursor=forged(f"{path}?[]", key)), 400, "INVALID_REQUEST")
        assert pointers(error) == ["cursor"], key


def test_cursor_is_valid_in_other_processes(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.post("/configs", {"name": name, "values": {}})
    with another_process(api) as other:
        cursors = [client.get("/configs", limit=1).json["cursor"] for client in (api, other)]
        assert len(set(cursors)) == 1
        for client in (api, other):
            page = client.get("/configs", limit=1, cursor=cursors[0]).json
            assert [item["name"] for item in page["items"]] == ["b"]


def test_each_database_has_its_own_signing_key(database: Database) -> None:
    key = SigningKey(database, "cursors").get()
    assert len(key) >= 32
    assert SigningKey(database, "cursors").get() == key
    database.fetch(text("DELETE FROM signing_keys"))
    assert SigningKey(database, "cursors").get() != key


def test_concurrent_processes_create_one_signing_key(database: Database) -> None:
    class Overtaken(Database):
        """Database that reads no key; another process stores its key first."""

        def fetch(self, statement: Any, params: Any = None, **options: Any) -> Any:
            if statement is signing_key.STORE:
                overtaking.append(SigningKey(database, "cursors").get())
            return super().fetch(statement, params, **options)

    overtaking: list[bytes] = []
    assert [SigningKey(Overtaken(database.engine, database.fire_and_forget), "cursors").get()] == overtaking


def test_cursor_is_bound_to_its_list_and_filters(api: Api) -> None:
    register(api)
    for number in range(3):
        created(api, one_shot(f"k{number}"))
        api.post("/configs", {"name": f"c{number}", "values": {}})
    cursor = api.get("/jobs", limit=1, status="ACTIVE").json["cursor"]
    assert api.get("/jobs", status="ACTIVE", cursor=cursor).status_code == 200
    problem(api.get("/jobs", status="RETIRED", cursor=cursor), 400, "INVALID_REQUEST")
    problem(api.get("/jobs", cursor=cursor), 400, "INVALID_REQUEST")
    problem(api.get("/configs", cursor=cursor), 400, "INVALID_REQUEST")


def test_limit_defaults_to_50_and_ends_at_200(api: Api, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 201)
    assert len(api.get("/jobs").json["items"]) == 50
    page = api.get("/jobs", limit=200).json
    assert len(page["items"]) == 200
    assert page["cursor"] is not None
