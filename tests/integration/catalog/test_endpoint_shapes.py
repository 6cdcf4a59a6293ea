"""Comparison of the OpenAPI document with validation, value by value: `spec` and `retry_policy` of endpoints."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from marshmallow import Schema

from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs import TRANSPORTS
from schema.states import EndpointType
from tests.integration.http.document import document

COMPLETE: dict[str, tuple[Schema, dict[str, Any]]] = {
    "HttpSpec": (
        TRANSPORTS[EndpointType.HTTP].spec,
        {
            "url": "{{config.base}}/hook",
            "method": "PUT",
            "headers": {"X-User": "{{input.user}}"},
            "body_template": {"a": ["{{input.a}}"]},
            "signing": {"secret": "{{secret.new}}", "previous_secret": " {{ secret.old }} "},
            "timeout_ms": 5000,
            "soft_timeout_ms": 400,
            "expected_status_codes": [200, 599],
        },
    ),
    "KafkaSpec": (
        TRANSPORTS[EndpointType.KAFKA].spec,
        {
            "bootstrap_servers": "kafka:9092",
            "topic": "t",
            "key_template": "{{input.key}}",
            "value_template": {"a": 1},
            "headers": {"an event": "x"},
            "properties": {"sasl.username": "u"},
            "acks": "1",
            "timeout_ms": 5000,
            "soft_timeout_ms": 400,
        },
    ),
    "RedisStreamSpec": (
        TRANSPORTS[EndpointType.REDIS_STREAM].spec,
        {
            "redis_url": "REDISS://h",
            "stream": "s",
            "fields_template": {"a": "{{input.a}}"},
            "max_len": "{{config.most}}",
            "approximate_trimming": False,
            "metadata": True,
            "timeout_ms": 5000,
            "soft_timeout_ms": 400,
        },
    ),
    "NotificationSpec": (
        TRANSPORTS[EndpointType.NOTIFICATION].spec,
        {
            "url": ["mailto://mail.example.com", "{{secret.channel}}"],
            "title": "Hello",
            "body": "{{input.text}}",
            "severity": "{{input.severity}}",
            "signing": {"secret": "{{secret.new}}"},
            "timeout_ms": 5000,
            "soft_timeout_ms": 400,
        },
    ),
    "ActorSpec": (
        TRANSPORTS[EndpointType.ACTOR].spec,
        {
            "actor": "send_mail",
            "queue": "mails",
            "arguments": {"user": "{{input.user}}"},
            "timeout_ms": 5000,
            "soft_timeout_ms": 400,
            "max_lost": 5,
            "cron": "0 9 * * *",
            "timezone": "Europe/Berlin",
            "interval": "10m",
        },
    ),
    "RetryPolicySpec": (
        RETRY_POLICY,
        {
            "max_attempts": 3,
            "backoff": "custom",
            "initial_delay_ms": 0,
            "max_delay_ms": 86_400_000,
            "delays_ms": [0, 5],
            "fail_on": [404, "TIMEOUT"],
            "reject_on": ["4xx"],
            "ignore_on": [{"pointer": "/a~1b", "in": ["x", 1, None, True], "status": "2xx"}],
            "retry_on": [{"pointer": "", "equals": 1.5, "status": 422}],
            "max_age_ms": 1000,
        },
    ),
}
NAMES = [type(transport.spec).__name__ for transport in TRANSPORTS.values()]
# The values of a WorkflowSpec are checked like the values of POST /workflows: features/workflows/test_definitions.
WHOLE_SHAPES = [name for name in NAMES if name != "WorkflowSpec"]
# VALUES lacks 1.0: a whole number in JSON Schema, but not for the validation.
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 99, 100, 600, 1.5, 86_400_001, 10**12, 2**53 - 1, 2**53),
    *("", "x", "GET", "all", "TIMEOUT", "http://h/", "HTTPS://h", "redis://h", "http://", "x http://h/", "x" * 1025),
    *("{{config.a}}", "x{{config.a}}", " {{secret.a}}\n", "{{secret.a}} x", "{{secret.}}", "x" * 8193),
    *([], [0], [200], [1.5], ["TIMEOUT"], [None], [1] * 101),
    *(["6xx"], [{"pointer": "/a", "equals": "x"}], [{"pointer": "a", "equals": "x"}], [{"pointer": "/a"}]),
    *([{"pointer": "/a", "equals": 1, "in": [1]}], [{"pointer": "/~", "equals": 1}], [{"pointer": "/a", "in": []}]),
    *([{"pointer": "/a", "equals": []}], [{"equals": 1}], [{"pointer": "/a", "equals": 1, "status": "600"}]),
    *([{"pointer": "/a", "equals": "x" * 201}], [{"pointer": "/" + "x" * 200, "equals": 1}]),
    *({}, {"a": "b"}, {"a": 1}, {"a b": "c"}, {"": "c"}, {"sasl.password": "p"}, {"sasl.password": None}),
]


def described(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document()["components"]})


def changed(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object as it is, with an unknown field, and with each of its values replaced by each of VALUES."""
    yield whole
    yield {**whole, "unknown": 1}
    for name, value in whole.items():
        for other in VALUES:
            yield {**whole, name: other}
        for inner in value if isinstance(value, dict) else ():
            for other in VALUES:
                replaced = copy.deepcopy(whole)
                replaced[name][inner] = other
                yield replaced


@pytest.mark.parametrize("name", COMPLETE)
def test_document_and_validation_accept_the_same_values(name: str) -> None:
    shape, whole = COMPLETE[name]
    assert set(whole) == set(shape.fields)
    taken = {True: 0, False: 0}
    for candidate in changed(whole):
        faults = shape.validate(candidate)
        assert described(name).is_valid(candidate) is (not faults), (candidate, faults)
        taken[not faults] += 1
    assert all(taken.values())


def test_every_transport_is_tried() -> None:
    assert set(WHOLE_SHAPES) <= set(COMPLETE)


@pytest.mark.parametrize("name", WHOLE_SHAPES)
def test_document_and_validation_require_the_same_fields(name: str) -> None:
    shape, whole = COMPLETE[name]
    for left_out in whole:
        rest = {field: value for field, value in whole.items() if field != left_out}
        assert described(name).is_valid(rest) is (not shape.validate(rest)), left_out


def test_document_has_the_defaults_of_absent_fields() -> None:
    schemas = document()["components"]["schemas"]
    for transport, name in zip(TRANSPORTS.values(), NAMES, strict=True):
        defaults = {
            field: value["default"] for field, value in schemas[name]["properties"].items() if "default" in value
        }
        assert defaults == transport.defaults
    policy = {field: value.get("default") for field, value in schemas["RetryPolicySpec"]["properties"].items()}
    assert (policy["max_attempts"], policy["backoff"], policy["initial_delay_ms"]) == (1, "exponential", 1000)
    assert "`{{input.…}}`" in schemas["KafkaSpec"]["properties"]["key_template"]["description"]
    assert "`{{input.…}}`" not in schemas["KafkaSpec"]["properties"]["topic"]["description"]


@pytest.mark.parametrize("schema", ["NewEndpoint", "ChangedEndpoint", "Endpoint"])
def test_requests_and_answers_refer_to_the_described_schemas(schema: str) -> None:
    properties = document()["components"]["schemas"][schema]["properties"]
    names = [option["$ref"].rsplit("/", 1)[1] for option in properties["spec"]["anyOf"]]
    assert names == NAMES
    assert "#/components/schemas/RetryPolicySpec" in str(properties["retry_policy"])
