"""ETag, If-Match and If-None-Match: a conditional change applies only to the state known to the client."""

import itertools
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.cases import Breaches
from tests.integration.catalog.things import EACH_RESOURCE, make
from tests.integration.client import Api, pointers, problem
from tests.integration.http.document import document
from tests.integration.lost_answers import lose_answer_of_next_commit
from tests.integration.registered import created, http_endpoint, one_shot
from tests.racing import at_once


@EACH_RESOURCE
def test_if_match_allows_only_the_current_tag(api: Api, path: str, one: Any, two: Any) -> None:
    first, thing = make(api, path, one), f"{path}/x"
    assert first.startswith('"')
    assert api.get(thing).headers["ETag"] == first
    changed = api.put(thing, two, headers={"If-Match": first})
    second = changed.headers["ETag"]
    assert (changed.status_code, second != first) == (200, True)
    assert api.get(thing).headers["ETag"] == second

    for stale in (first, f"W/{second}", '"nonsense"', f'{first}, "other"'):
        error = problem(api.put(thing, one, headers={"If-Match": stale}), 412, "PRECONDITION_FAILED")
        assert not error["retryable"]
        problem(api.delete(thing, headers={"If-Match": stale}), 412, "PRECONDITION_FAILED")
    assert (api.get(thing).json, api.get(thing).headers["ETag"]) == (changed.json, second)

    assert api.put(thing, one, headers={"If-Match": f"{first},, {second} "}).status_code == 200
    assert api.put(thing, one, headers={"If-Match": "*"}).status_code == 200
    assert api.put(thing, one).status_code == 200
    last = api.get(thing).headers["ETag"]
    assert api.delete(thing, headers={"If-Match": last}).status_code == 204


@EACH_RESOURCE
def test_recreated_resource_has_a_new_tag(api: Api, path: str, one: Any, two: Any) -> None:
    first = make(api, path, one)
    assert api.delete(f"{path}/x").status_code == 204
    assert make(api, path, one) != first
    problem(api.put(f"{path}/x", two, headers={"If-Match": first}), 412, "PRECONDITION_FAILED")


@EACH_RESOURCE
def test_missing_resource_is_404_with_any_condition(api: Api, path: str, one: Any, two: Any) -> None:
    for condition in ("*", '"a"'):
        assert api.put(f"{path}/x", two, headers={"If-Match": condition}).status_code == 404
        assert api.delete(f"{path}/x", headers={"If-Match": condition}).status_code == 404
        assert api.get(f"{path}/x").status_code == 404


@EACH_RESOURCE
def test_if_none_match_with_the_current_tag_is_304_without_body(api: Api, path: str, one: Any, two: Any) -> None:
    tag, thing = make(api, path, one), f"{path}/x"
    for known in (tag, f"W/{tag}", "*", f'"other", {tag}'):
        response = api.send("GET", thing, headers={"If-None-Match": known})
        assert (response.status_code, response.data, response.headers["ETag"]) == (304, b"", tag)
        assert api.send("HEAD", thing, headers={"If-None-Match": known}).status_code == 304
        problem(api.put(thing, two, headers={"If-None-Match": known}), 412, "PRECONDITION_FAILED")
    assert api.send("GET", thing, headers={"If-None-Match": '"other"'}).json["name"] == "x"
    problem(api.send("GET", thing, headers={"If-Match": '"other"'}), 412, "PRECONDITION_FAILED")
    assert api.put(thing, two, headers={"If-None-Match": '"other"'}).status_code == 200


MALFORMED = ["", ",", "abc", '"abc', 'abc"', '"a" "b"', '"a", b', '*, "a"', 'w/"a"', '"a b"', '"a"' + ',"b"' * 1000]


def test_malformed_condition_is_400(api: Api) -> None:
    make(api, "/configs", {"values": {}})
    with Breaches() as breaches:
        for header, value in itertools.product(["If-Match", "If-None-Match"], MALFORMED):
            with breaches.case(header, value):
                for method, body in (("PUT", {"values": {"a": 1}}), ("DELETE", None), ("GET", None)):
                    response = api.send(method, "/configs/x", json=body, headers={header: value})
                    assert pointers(problem(response, 400, "INVALID_REQUEST")) == [header]
    assert api.get("/configs/x").json["values"] == {}


@EACH_RESOURCE
def test_only_one_of_concurrent_changes_with_the_same_tag_succeeds(
    api: Api, database: Database, path: str, one: Any, two: Any
) -> None:
    for _ in range(4):
        tag = make(api, path, one)
        put = partial(api.put, f"{path}/x", two, headers={"If-Match": tag})
        delete = partial(api.delete, f"{path}/x", headers={"If-Match": tag})
        statuses = [answer.status_code for answer in at_once(put, put, delete, put, delete)]
        assert sum(status in {200, 204} for status in statuses) == 1, statuses
        assert set(statuses) <= {200, 204, 404, 412}
        api.delete(f"{path}/x")


def test_endpoint_in_use_cannot_be_deleted_with_its_tag(api: Api) -> None:
    tag = make(api, "/endpoints", http_endpoint())
    created(api, one_shot("k", endpoint="x"))
    problem(api.delete("/endpoints/x", headers={"If-Match": tag}), 409, "CONFLICT")
    problem(api.delete("/endpoints/x", headers={"If-Match": '"old"'}), 412, "PRECONDITION_FAILED")


def test_refused_change_leaves_version_and_revision(api: Api, database: Database) -> None:
    make(api, "/endpoints", http_endpoint())
    make(api, "/configs", {"values": {}})
    before = counters(database)
    problem(api.put("/endpoints/x", http_endpoint("x"), headers={"If-Match": '"a"'}), 412, "PRECONDITION_FAILED")
    problem(api.put("/configs/x", {"values": {}}, headers={"If-Match": '"a"'}), 412, "PRECONDITION_FAILED")
    assert counters(database) == before


def counters(database: Database) -> Any:
    query = """SELECT (SELECT count(*) FROM endpoint_versions),
                      (SELECT revision FROM catalog_revision WHERE id = 'catalog'),
                      (SELECT count(*) FROM audit_log)"""
    return tuple(database.fetch(text(query))[0])


def test_document_describes_tags_and_conditions() -> None:
    for path in ("/payload-specs", "/configs", "/secrets", "/endpoints"):
        one = document()["paths"][f"{path}/{{name}}"]
        names = {
            method: {p.get("name") for p in one[method].get("parameters", [])} for method in ("get", "put", "delete")
        }
        assert "If-None-Match" in names["get"]
        assert "If-Match" in names["put"] & names["delete"]
        assert {"304", "412"} <= set(one["get"]["responses"])
        assert "412" in one["put"]["responses"]
        assert "412" in one["delete"]["responses"]
        assert "ETag" in one["get"]["responses"]["200"]["headers"]
        assert "ETag" in one["put"]["responses"]["200"]["headers"]
        assert "ETag" in document()["paths"][path]["post"]["responses"]["201"]["headers"]


@pytest.mark.own_faults
@EACH_RESOURCE
def test_change_is_made_once_if_the_answer_of_its_commit_is_lost(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch, path: str, one: Any, two: Any
) -> None:
    """The repeated transaction must not report a taken name or a stale tag."""
    lose_answer_of_next_commit(database, monkeypatch)
    tag = make(api, path, one)
    lose_answer_of_next_commit(database, monkeypatch)
    changed = api.put(f"{path}/x", two, headers={"If-Match": tag})
    assert changed.status_code == 200
    assert changed.json == api.get(f"{path}/x").json
    lose_answer_of_next_commit(database, monkeypatch)
    assert api.delete(f"{path}/x", headers={"If-Match": changed.headers["ETag"]}).status_code == 204
    rows = database.fetch(text("SELECT action FROM audit_log WHERE resource = 'x' ORDER BY occurred_at"))
    assert [row.action for row in rows] == ["create", "replace", "delete"]
