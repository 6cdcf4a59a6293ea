"""Pages of the catalogue: names, values with their reach, changes with conditions, and routes."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.console.visitor import Markup, Visitor
from tests.integration.registered import created, one_shot, register_all

DO = "/console/do"
CONFIG, SECRET = "/console/catalogue/configs/config", "/console/catalogue/secrets/token"


@pytest.fixture
def catalogue(api: Api) -> Api:
    register_all(api)
    created(api, one_shot("waits"))
    return api


def test_kinds_are_listed(app: Flask, catalogue: Api) -> None:
    reader = Visitor(app, Scope.READ)
    assert ">config</a>" in reader.get("/console/catalogue")
    assert ">token</a>" in reader.get("/console/catalogue?kind=secrets")
    assert ">spec</a>" in reader.get("/console/catalogue?kind=payload-specs")
    assert "New " not in reader.get("/console/catalogue")
    assert "New config" in Visitor(app, Scope.ADMIN).get("/console/catalogue")


def test_empty_kind_says_what_it_is_for(app: Flask, database: Database) -> None:
    assert "{{config.base_url}}" in Visitor(app, Scope.READ).get("/console/catalogue")


def test_value_is_shown_with_the_reach_of_a_change(app: Flask, catalogue: Api) -> None:
    page = Visitor(app, Scope.ADMIN).get(CONFIG)
    assert "Saving reaches 1 endpoint, 1 waiting execution." in page
    assert all(part in page for part in ("http://127.0.0.1:9", "/console/endpoints/target", "create"))
    reader = Visitor(app, Scope.READ).get(CONFIG)
    assert "http://127.0.0.1:9" in reader
    assert "Changes" not in reader, "the audit log needs the scope admin"


def test_secret_is_never_shown(app: Flask, catalogue: Api) -> None:
    for scope in (Scope.READ, Scope.ADMIN):
        assert "s3cret" not in Visitor(app, scope).get(SECRET)
    admin = Visitor(app, Scope.ADMIN)
    refused = admin.send(f"{DO}/put/secrets/token", admin.form(SECRET, f"{DO}/put/secrets/token") | {"value": "@@@"})
    page = refused.get_data(as_text=True)
    assert (refused.status_code, "4 to 8,192" in page, "@@@" in page) == (422, True, False)
    assert "Saved" in admin.act(SECRET, f"{DO}/put/secrets/token", value="another-value")


def test_change_is_saved_and_audited(app: Flask, catalogue: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    page = admin.act(CONFIG, f"{DO}/put/configs/config", value='{"base": "http://127.0.0.1:10"}')
    assert "Saved: the config config applies to executions that have not begun." in page
    assert catalogue.get("/configs/config").json["values"] == {"base": "http://127.0.0.1:10"}
    (latest, *_) = catalogue.get("/audit", resource_type="config").json["items"]
    assert (latest["actor_name"], latest["action"]) == ("visitor", "replace")


def test_change_of_an_outdated_state_is_refused(app: Flask, catalogue: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    form = admin.form(CONFIG, f"{DO}/put/configs/config")
    assert catalogue.put("/configs/config", {"values": {"base": "http://127.0.0.1:11"}}).status_code == 200
    assert admin.send(f"{DO}/put/configs/config", form | {"value": "{}"}).status_code == 412
    assert catalogue.get("/configs/config").json["values"] == {"base": "http://127.0.0.1:11"}


def test_faults_are_shown_beside_what_was_typed(app: Flask, catalogue: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    path = "/console/catalogue/payload-specs/spec"
    form = admin.form(path, f"{DO}/put/payload-specs/spec")
    for value in ('{"type": 5}', '{"type": 5'):
        refused = admin.send(f"{DO}/put/payload-specs/spec", form | {"value": value})
        assert refused.status_code == 422
        assert "{&#34;type&#34;: 5" in refused.get_data(as_text=True)
    new = "/console/catalogue/new/configs"
    for name, value, fault in (("x", "{", "not valid JSON"), ("X!", "{}", "lower-case"), ("config", "{}", "already")):
        answer = admin.send(
            f"{DO}/post/configs", admin.form(new, f"{DO}/post/configs") | {"name": name, "value": value}
        )
        assert answer.status_code == 422
        assert fault in answer.get_data(as_text=True)


@each_case(
    "value",
    ['{"a": ' * 3000 + "1" + "}" * 3000, '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": "\\u0000"}'],
    ids=["deep", "twice", "nan", "nul"],
)
def test_value_that_the_api_would_refuse_is_refused(app: Flask, catalogue: Api, value: str) -> None:
    admin, action = Visitor(app, Scope.ADMIN), f"{DO}/put/configs/config"
    before = catalogue.get("/configs/config").json
    refused = admin.send(action, admin.form(CONFIG, action) | {"value": value})
    assert (refused.status_code, "The text " in refused.get_data(as_text=True)) == (422, True)
    assert catalogue.get("/configs/config").json == before


def test_value_is_created_and_deleted(app: Flask, catalogue: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    page = admin.act("/console/catalogue/new/configs", f"{DO}/post/configs", name="fresh", value='{"a": 1}')
    assert "Created the config fresh." in page
    assert "Deleted" in admin.act("/console/catalogue/configs/fresh", f"{DO}/delete/configs/fresh")
    used = admin.send(f"{DO}/delete/configs/config", admin.form(CONFIG, f"{DO}/delete/configs/config"))
    assert (used.status_code, "in use by" in used.get_data(as_text=True)) == (409, True)


def test_reader_changes_nothing(app: Flask, catalogue: Api) -> None:
    reader, admin = Visitor(app, Scope.READ), Visitor(app, Scope.ADMIN)
    assert not reader.has_form(CONFIG, f"{DO}/put/configs/config")
    form = admin.form(CONFIG, f"{DO}/put/configs/config") | {"value": "{}"}
    form["csrf"] = reader.form(CONFIG, "/console/sign-out")["csrf"]
    assert reader.send(f"{DO}/put/configs/config", form).status_code == 403
    reader.get("/console/catalogue/new/configs", 403)


@each_case("path", ["configs/nope", "moons/x", "new/moons"])
def test_absent_value_and_kind_are_not_found(app: Flask, catalogue: Api, path: str) -> None:
    Visitor(app, Scope.ADMIN).get(f"/console/catalogue/{path}", 404)


def test_change_of_outdated_routes_is_refused(app: Flask, catalogue: Api) -> None:
    admin, path = Visitor(app, Scope.ADMIN), "/console/catalogue/routes"
    replace, restore = f"{DO}/put/routes", f"{DO}/delete/routes"
    admin.act(path, replace, routes="a-* bulk")
    stale, removal = admin.form(path, replace), admin.form(path, restore)
    assert catalogue.put("/routes", {"routes": [{"pattern": "b-*", "queue": "http"}]}).status_code == 200
    assert admin.send(replace, stale | {"routes": "c-* bulk"}).status_code == 412
    assert admin.send(restore, removal).status_code == 412
    assert [each["pattern"] for each in catalogue.get("/routes").json["routes"]] == ["b-*"]


def test_form_with_faults_keeps_the_state_that_it_was_made_of(app: Flask, catalogue: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    for path, action, field, change in (
        (CONFIG, f"{DO}/put/configs/config", "value", ("/configs/config", {"values": {"base": "http://127.0.0.1:11"}})),
        (
            "/console/catalogue/routes",
            f"{DO}/put/routes",
            "routes",
            ("/routes", {"routes": [{"pattern": "a-*", "queue": "http"}]}),
        ),
    ):
        form = admin.form(path, action)
        assert catalogue.put(*change).status_code == 200
        refused = admin.send(action, form | {field: "{"})
        assert refused.status_code == 422
        again = next(each for each in Markup(refused.get_data(as_text=True)).forms if each["action"] == action)
        assert again["fields"]["etag"] == form["etag"]


def test_routes_are_changed_and_asked(app: Flask, catalogue: Api, database: Database) -> None:
    admin, path = Visitor(app, Scope.ADMIN), "/console/catalogue/routes"
    page = admin.act(path, f"{DO}/put/routes", routes="billing-* bulk\n* http")
    assert "Saved" in page
    assert "by route 1" in admin.get(f"{path}?endpoint=billing-eu")
    assert "lower-case" in admin.get(f"{path}?endpoint=X!")
    for lines, fault in (("billing-*", "Line 1 must be"), ("a-* b\n!! c", "Line 2:")):
        answer = admin.send(f"{DO}/put/routes", admin.form(path, f"{DO}/put/routes") | {"routes": lines})
        assert (answer.status_code, fault in answer.get_data(as_text=True)) == (422, True)
    assert "TE_ROUTES are in force" in admin.act(path, f"{DO}/delete/routes")
    assert database.fetch(text("SELECT 1 FROM routes")) == []
    assert not Visitor(app, Scope.READ).has_form(path, f"{DO}/put/routes")
