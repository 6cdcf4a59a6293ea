"""Variables of a spec: registration refuses variables that can never be resolved."""

import pytest

from app.kernel.errors import InvalidRequestError, TemplateError
from tests.cases import each_case
from tests.unit.catalog.example_specs import HEADER, HTTP, KAFKA, REDIS, check


@each_case(
    ("transport", "changes", "pointer", "options"),
    [
        (HTTP, {"headers": {"A~b": "{{config.nope}}"}}, HEADER + "A~0b", {}),
        (HTTP, {"headers": {"A": "{{secret.nope}}"}}, HEADER + "A", {}),
        (HTTP, {}, HEADER + "Authorization", {"secrets": ()}),
        (HTTP, {"body_template": {"a": ["{{config.sender.x}}"]}}, "/spec/body_template/a/0", {}),
        (HTTP, {"body_template": {"a": "{{"}}, "/spec/body_template/a", {}),
        (HTTP, {"method": "{{config.m}}"}, "/spec/method", {}),
        (HTTP, {"url": "{{config.sender}}/x"}, "/spec/url", {}),
        (HTTP, {"url": "{{config.sender}}/x/{{input.user_id}}"}, "/spec/url", {}),
        (HTTP, {"url": "https://{{input.user_id}}/"}, "/spec/url", {}),
        (KAFKA, {"topic": "{{input.topic}}"}, "/spec/topic", {}),
        (KAFKA, {"topic": "{{secret.email_api_key}}"}, "/spec/topic", {}),
        (KAFKA, {"key_template": "{{secret.email_api_key}}"}, "/spec/key_template", {}),
        (KAFKA, {"properties": {"sasl.password": "{{secret.nope}}"}}, "/spec/properties/sasl.password", {}),
        (REDIS, {"stream": "{{input.s}}"}, "/spec/stream", {}),
        (REDIS, {"max_len": "{{input.n}}"}, "/spec/max_len", {}),
        (REDIS, {"max_len": "{{config.stream_name}}"}, "/spec/max_len", {}),
    ],
)
def test_unresolvable_template_is_refused(transport, changes, pointer, options):
    expected = InvalidRequestError if pointer == "/spec/method" else TemplateError
    with pytest.raises(expected) as caught:
        check(transport, changes, **options)
    assert [detail["pointer"] for detail in caught.value.details] == [pointer]


def test_config_variable_needs_a_config():
    with pytest.raises(TemplateError, match="names none") as caught:
        check(HTTP, {}, config=None)
    assert [item["pointer"] for item in caught.value.details] == ["/spec/url", "/spec/body_template/sender"]


CLOSED = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string"},
        "deep": {"type": ["object", "null"], "properties": {"a": True}, "additionalProperties": False},
        "open": {"type": "object"},
        "list": {"type": "array", "items": {"properties": {"id": {}}, "additionalProperties": False}},
        "pair": {"type": "array", "prefixItems": [{"type": "object"}], "items": False},
        "reference": {"$ref": "#/$defs/x"},
        "never": False,
    },
    "additionalProperties": False,
}


@each_case(
    ("path", "possible"),
    [
        ("user_id", True),
        ("nope", False),
        ("user_id.x", False),
        ("deep.a", True),
        ("deep.a.b.c", True),
        ("deep.b", False),
        ("open.anything.at.all", True),
        ("list.0.id", True),
        ("list.0.name", False),
        ("list.id", False),
        ("pair.0.x", True),
        ("pair.1", False),
        ("reference.x", True),
        ("never", False),
    ],
)
def test_closed_payload_spec_refuses_variables_of_impossible_input(path, possible):
    changes = {"body_template": "{{input." + path + "}}"}
    if possible:
        check(HTTP, changes, schema=CLOSED)
    else:
        with pytest.raises(TemplateError, match="payload spec"):
            check(HTTP, changes, schema=CLOSED)


@pytest.mark.parametrize(
    "schema", [None, {}, True, {"type": "object"}, {"patternProperties": {"(": {}}, "additionalProperties": False}]
)
def test_open_payload_spec_allows_any_input(schema):
    check(HTTP, {"body_template": "{{input.a.b.0}}"}, schema=schema)
