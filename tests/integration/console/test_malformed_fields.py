"""Fields that no browser would send: pages name the field, and nothing fails."""

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register

DO = "/console/do"
DEEP = "[" * 3000 + "]" * 3000


@pytest.fixture
def admin(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.ADMIN)


@each_case(("action", "field"), [("post/bulk-operations", "wanted"), ("post/redrives", "wanted")])
@each_case("value", ["{", DEEP, "[]", '{"a": 1, "a": 2}'], ids=["open", "deep", "list", "twice"])
def test_malformed_json_of_a_form_is_refused(admin: Visitor, action: str, field: str, value: str) -> None:
    form = admin.form("/console", "/console/sign-out") | {"once": "k", "action": "retry", field: value}
    answer = admin.send(f"{DO}/{action}", form)
    assert answer.status_code == 400
    assert field in answer.get_data(as_text=True)


@each_case(
    ("path", "words"),
    [
        (f"/console/schedules/bulk?endpoint={'e' * 129}", "endpoint"),
        ("/console/executions?until=0001-01-01T00:00:00", "Must lie between"),
        (f"/console/executions?until={'9' * 4}-12-31T23:59:59-14:00", "Must lie between"),
    ],
)
def test_malformed_filter_of_an_address_is_refused(admin: Visitor, path: str, words: str) -> None:
    answer = admin.browser.get(path)
    assert answer.status_code < 500
    page = answer.get_data(as_text=True)
    assert words in page
    assert "This part cannot be shown" not in page or "Must lie between" in page


def test_error_of_an_address_is_not_that_of_a_form(admin: Visitor) -> None:
    assert "The address is not valid" in admin.get("/console/history?last=1y", 400)


def test_number_with_too_many_digits_is_refused(admin: Visitor) -> None:
    form = admin.form("/console", "/console/sign-out") | {"once": "k", "action": "retry", "rate": "1".zfill(15) + "0"}
    answer = admin.send(f"{DO}/post/bulk-operations", form)
    assert (answer.status_code, "Must be a whole number" in answer.get_data(as_text=True)) == (400, True)


def test_deep_input_of_a_new_job_is_a_fault_of_its_field(api: Api, admin: Visitor) -> None:
    register(api)
    path = "/console/jobs/new?endpoint=target"
    form = admin.form(path, f"{DO}/post/jobs") | {"input": DEEP, "do": "create"}
    refused = admin.send(f"{DO}/post/jobs", form)
    assert (refused.status_code, "nested deeper" in refused.get_data(as_text=True)) == (422, True)
    assert admin.browser.get(f"{path}&input={DEEP}").status_code == 200


def test_nul_character_in_the_form_of_a_job_is_refused(api: Api, admin: Visitor) -> None:
    register(api)
    form = admin.form("/console/jobs/new?endpoint=target", f"{DO}/post/jobs") | {"endpoint": "a\0"}
    refused = admin.send(f"{DO}/post/jobs", form)
    assert (refused.status_code, "NUL" in refused.get_data(as_text=True)) == (400, True)
