"""New endpoint: a form for each transport, with each fault at its field."""

import pytest
from flask import Flask

from app.catalog.specs import TRANSPORTS
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from schema.states import EndpointType
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor

PAGE, CREATE = "/console/new-endpoint", "/console/do/post/endpoints"
HTTP = {"type": "HTTP", "name": "send-mail", "spec/url": "https://x.example/"}


@pytest.fixture
def visitor(app: Flask, api: Api) -> Visitor:
    return Visitor(app, Scope.ADMIN)


def sent(visitor: Visitor, status: int, **fields: str) -> str:
    answer = visitor.send(CREATE, {**visitor.form(PAGE, CREATE), "do": "create", **fields})
    shown = answer.get_data(as_text=True)
    assert answer.status_code == status, shown
    return shown


@each_case("type_", EndpointType)
def test_form_has_each_field_of_the_transport(visitor: Visitor, type_: EndpointType) -> None:
    shown = visitor.get(f"{PAGE}?type={type_.value}")
    names = [f'name="spec/{name}' for name in TRANSPORTS[type_].spec.fields]
    assert [name for name in names if name not in shown] == []


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        (
            {"type": "KAFKA", "spec/bootstrap_servers": "k:9092", "spec/topic": "t", "spec/value_template": '"v"'},
            {"bootstrap_servers": "k:9092", "topic": "t", "value_template": "v"},
        ),
        (
            {
                "type": "REDIS_STREAM",
                "spec/redis_url": "redis://r",
                "spec/stream": "s",
                "spec/fields_template": '{"a": 1}',
                "spec/max_len": "100",
                "spec/metadata": "true",
            },
            {"redis_url": "redis://r", "stream": "s", "fields_template": {"a": 1}, "max_len": 100, "metadata": True},
        ),
        (
            {"type": "NOTIFICATION", "spec/url": "mailto://mail.example?to=a@x.example", "spec/body": "Dear\r\nreader"},
            {"url": "mailto://mail.example?to=a@x.example", "body": "Dear\nreader"},
        ),
        (
            {"type": "NOTIFICATION", "spec/url": "ntfys://a.example/x\nntfys://b.example/x"},
            {"url": ["ntfys://a.example/x", "ntfys://b.example/x"]},
        ),
        (
            {
                "type": "WORKFLOW",
                "spec/deadline": "2h",
                "spec/on_failure": '"continue"',
                "spec/nodes": '[{"name": "a", "endpoint": "alert"}]',
            },
            {"nodes": [{"name": "a", "endpoint": "alert"}], "deadline": "2h", "on_failure": "continue"},
        ),
        ({"type": "ACTOR", "spec/actor": "send_mail", "spec/max_lost": "2"}, {"actor": "send_mail", "max_lost": 2}),
        (
            {"type": "HTTP", "as:spec": "json", "spec": '{"url": "https://x.example/", "method": "GET"}'},
            {"url": "https://x.example/", "method": "GET"},
        ),
    ],
)
def test_typed_fields_become_an_endpoint(api: Api, visitor: Visitor, fields: dict[str, str], spec: object) -> None:
    alert = {"name": "alert", "type": "HTTP", "spec": {"url": "https://alert.example/"}}
    assert api.post("/endpoints", alert).status_code == 201
    name = "send-mail" if fields["type"] == "ACTOR" else "new-one"
    sent(visitor, 303, name=name, **fields)
    assert api.get(f"/endpoints/{name}").json["spec"] == spec
    shown = visitor.get(f"/console/endpoints/{name}/edit")
    assert 'name="as:spec"' not in shown, "the form has fields for all of it"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"name": ""}, "name", "Required."),
        ({"name": "Send Mail"}, "name", "lower-case"),
        ({"name": "taken"}, "name", "already exists"),
        ({"spec/url": ""}, "spec/url", "Required."),
        ({"payload_spec": "nobody"}, "payload_spec", "There is no payload spec named"),
    ],
)
def test_fault_stands_at_its_field(
    api: Api, visitor: Visitor, fields: dict[str, str], field: str, message: str
) -> None:
    assert api.post("/endpoints", {"name": "taken", "type": "HTTP", "spec": {"url": "https://x/"}}).status_code == 201
    shown = sent(visitor, 422, **{**HTTP, **fields})
    assert message in shown.split(f'id="n-{field}">', 1)[1].partition("</p>")[0]
    assert 'value="https://x.example/"' in shown or field == "spec/url", "typed texts are kept"


def test_check_creates_nothing_and_shows_the_request(api: Api, database: Database, visitor: Visitor) -> None:
    shown = sent(visitor, 200, **HTTP | {"do": "check"})
    assert "This endpoint would be created." in shown
    assert "https://x.example/" in shown.split("curl -sS", 1)[1]
    assert api.get("/endpoints/send-mail").status_code == 404
    assert "The endpoint is created." in visitor.act(PAGE, CREATE, **HTTP | {"do": "create"})


def test_reader_has_no_form(app: Flask, api: Api) -> None:
    reader = Visitor(app, Scope.READ)
    reader.get(PAGE, 403)
    assert PAGE not in reader.get("/console/endpoints")
