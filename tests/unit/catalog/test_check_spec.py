"""What registration refuses, with which status and where it points."""

import copy

import pytest

from app.catalog.check_spec import check_retry_policy, check_spec
from app.errors import InvalidRequestError, TemplateError
from schema.states import EndpointType

HTTP, KAFKA, REDIS = EndpointType.HTTP, EndpointType.KAFKA, EndpointType.REDIS_STREAM

# An endpoint of each transport, with a variable in most of its fields.
EXAMPLES = {
    HTTP: (
        {
            "url": "{{config.api_base_url}}/emails/welcome",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{secret.email_api_key}}", "Content-Type": "application/json"},
            "body_template": {"user_id": "{{input.user_id}}", "sender": "{{config.sender}}"},
            "timeout_ms": 5000,
            "expected_status_codes": [200, 201, 202, 204],
        },
        {"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"},
    ),
    KAFKA: (
        {
            "bootstrap_servers": "{{config.bootstrap_servers}}",
            "topic": "{{config.topic}}",
            "key_template": "{{input.order_id}}",
            "value_template": {"event_type": "{{input.event_type}}", "amount": "{{input.amount}}"},
            "headers": {"ce-type": "order.{{input.event_type}}", "ce-source": "task-executor"},
            "acks": "all",
            "timeout_ms": 10000,
        },
        {"bootstrap_servers": "kafka-1:9092,kafka-2:9092", "topic": "order.events.v1"},
    ),
    REDIS: (
        {
            "redis_url": "{{config.redis_url}}",
            "stream": "{{config.stream_name}}",
            "fields_template": {"user_id": "{{input.user_id}}", "title": "{{input.title}}"},
            "max_len": "{{config.max_stream_length}}",
            "approximate_trimming": True,
            "timeout_ms": 3000,
        },
        {"redis_url": "redis://redis:6379", "stream_name": "notifications:outbound", "max_stream_length": 100000},
    ),
}
REMOVED = object()


def check(transport, changes, *, config=REMOVED, secrets=("email_api_key",), schema=None, stuck=300_000):
    spec, default_config = copy.deepcopy(EXAMPLES[transport])
    spec |= changes
    spec = {name: value for name, value in spec.items() if value is not REMOVED}
    return check_spec(
        transport,
        spec,
        config=default_config if config is REMOVED else config,
        secret_names_exist=lambda names: set(names) & set(secrets),
        payload_schema=schema,
        stuck_timeout_ms=stuck,
    )


@pytest.mark.parametrize("transport", EXAMPLES)
def test_an_endpoint_of_each_transport_is_fine(transport):
    check(transport, {})


MINIMAL = {
    HTTP: {"url": "https://h/"},
    KAFKA: {"bootstrap_servers": "k:9092", "topic": "t", "value_template": None},
    REDIS: {"redis_url": "rediss://h", "stream": "s", "fields_template": {"a": 1}},
}


@pytest.mark.parametrize("transport", MINIMAL)
def test_the_required_fields_suffice(transport):
    check_spec(
        transport,
        MINIMAL[transport],
        config=None,
        secret_names_exist=lambda _: pytest.fail("asked without names"),
        payload_schema=None,
        stuck_timeout_ms=60_000,
    )


HEADER = "/spec/headers/"


@pytest.mark.parametrize(
    ("transport", "changes", "pointer"),
    [
        (HTTP, {"url": REMOVED}, "/spec/url"),
        (HTTP, {"url": None}, "/spec/url"),
        (HTTP, {"url": 5}, "/spec/url"),
        (HTTP, {"url": ""}, "/spec/url"),
        (HTTP, {"url": "ftp://h/"}, "/spec/url"),
        (HTTP, {"url": "h/path"}, "/spec/url"),
        (HTTP, {"url": "https:///path"}, "/spec/url"),
        (HTTP, {"url": "https://h/" + "x" * 9000}, "/spec/url"),
        (HTTP, {"method": "TRACE"}, "/spec/method"),
        (HTTP, {"method": "post"}, "/spec/method"),
        (HTTP, {"method": ["POST"]}, "/spec/method"),
        (HTTP, {"mehtod": "POST"}, "/spec/mehtod"),
        (HTTP, {"topic": "t"}, "/spec/topic"),
        (HTTP, {"headers": []}, "/spec/headers"),
        (HTTP, {"headers": {"Webhook-Signature": "v1,x"}}, HEADER + "Webhook-Signature"),
        (HTTP, {"signing": "{{secret.token}}"}, "/spec/signing"),
        (HTTP, {"signing": {}}, "/spec/signing/secret"),
        (HTTP, {"signing": {"secret": "in the open"}}, "/spec/signing/secret"),
        (HTTP, {"signing": {"secret": "{{config.token}}"}}, "/spec/signing/secret"),
        (HTTP, {"signing": {"secret": "x{{secret.token}}"}}, "/spec/signing/secret"),
        (HTTP, {"signing": {"secret": "{{secret.token}}", "next": "{{secret.token}}"}}, "/spec/signing/next"),
        (HTTP, {"headers": {"A": 1}}, HEADER + "A"),
        (HTTP, {"headers": {"A": None}}, HEADER + "A"),
        (HTTP, {"headers": {"a b": "x"}}, HEADER + "a b"),
        (HTTP, {"headers": {"": "x"}}, HEADER),
        (HTTP, {"headers": {"X-A": "1", "x-a": "2"}}, HEADER + "x-a"),
        (HTTP, {"headers": {"x-a": "1", "X-A": "2"}}, HEADER + "X-A"),
        (HTTP, {"headers": {"idempotency-KEY": "x"}}, HEADER + "idempotency-KEY"),
        (HTTP, {"headers": {"X-Task-Executor-Attempt": "x"}}, HEADER + "X-Task-Executor-Attempt"),
        (HTTP, {"headers": {"traceparent": "x"}}, HEADER + "traceparent"),
        (HTTP, {"headers": {"Host": "x"}}, HEADER + "Host"),
        (HTTP, {"headers": {"Content-Length": "5"}}, HEADER + "Content-Length"),
        (HTTP, {"headers": {"Transfer-Encoding": "chunked"}}, HEADER + "Transfer-Encoding"),
        (HTTP, {"headers": {"Connection": "close"}}, HEADER + "Connection"),
        (HTTP, {"headers": {"Expect": "100-continue"}}, HEADER + "Expect"),
        (HTTP, {"timeout_ms": 0}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": "5"}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": 1.5}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": True}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": "{{config.t}}"}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": 300_000}, "/spec/timeout_ms"),
        (HTTP, {"timeout_ms": 10**30}, "/spec/timeout_ms"),
        (HTTP, {"expected_status_codes": []}, "/spec/expected_status_codes"),
        (HTTP, {"expected_status_codes": 200}, "/spec/expected_status_codes"),
        (HTTP, {"expected_status_codes": [200, 99]}, "/spec/expected_status_codes/1"),
        (HTTP, {"expected_status_codes": ["200"]}, "/spec/expected_status_codes/0"),
        (KAFKA, {"bootstrap_servers": REMOVED}, "/spec/bootstrap_servers"),
        (KAFKA, {"topic": REMOVED}, "/spec/topic"),
        (KAFKA, {"value_template": REMOVED}, "/spec/value_template"),
        (KAFKA, {"key_template": 5}, "/spec/key_template"),
        (KAFKA, {"acks": "2"}, "/spec/acks"),
        (KAFKA, {"acks": 1}, "/spec/acks"),
        (KAFKA, {"headers": {"te-attempt": "x"}}, HEADER + "te-attempt"),
        (KAFKA, {"headers": {"TE-job-id": "x"}}, HEADER + "TE-job-id"),
        (KAFKA, {"headers": {"traceparent": "x"}}, HEADER + "traceparent"),
        (KAFKA, {"headers": {"a\n": "x"}}, HEADER + "a\n"),
        (KAFKA, {"properties": {"plugin.library.paths": "x"}}, "/spec/properties/plugin.library.paths"),
        (KAFKA, {"properties": {"ssl.ca.location": "/etc/x"}}, "/spec/properties/ssl.ca.location"),
        (KAFKA, {"properties": {"sasl.username": 1}}, "/spec/properties/sasl.username"),
        (KAFKA, {"properties": "x"}, "/spec/properties"),
        (REDIS, {"redis_url": "http://h"}, "/spec/redis_url"),
        (REDIS, {"redis_url": "unix:///run/redis"}, "/spec/redis_url"),
        (REDIS, {"stream": REMOVED}, "/spec/stream"),
        (REDIS, {"fields_template": {}}, "/spec/fields_template"),
        (REDIS, {"fields_template": "{{input.x}}"}, "/spec/fields_template"),
        (REDIS, {"max_len": 0}, "/spec/max_len"),
        (REDIS, {"max_len": "100"}, "/spec/max_len"),
        (REDIS, {"max_len": 2**53}, "/spec/max_len"),
        (REDIS, {"max_len": True}, "/spec/max_len"),
        (REDIS, {"approximate_trimming": 1}, "/spec/approximate_trimming"),
        (REDIS, {"approximate_trimming": "yes"}, "/spec/approximate_trimming"),
    ],
)
def test_a_wrong_shape_is_a_bad_request(transport, changes, pointer):
    with pytest.raises(InvalidRequestError) as caught:
        check(transport, changes)
    assert {detail["pointer"] for detail in caught.value.details} == {pointer}
    assert pointer in caught.value.message


@pytest.mark.parametrize("spec", [None, [], "x", 5])
def test_a_spec_is_an_object(spec):
    with pytest.raises(InvalidRequestError, match="object"):
        check_spec(HTTP, spec, config=None, secret_names_exist=set, payload_schema=None, stuck_timeout_ms=60_000)


def test_the_default_timeout_counts_too():
    with pytest.raises(InvalidRequestError, match="timeout_ms"):
        check(HTTP, {"timeout_ms": REMOVED}, stuck=30_000)
    check(HTTP, {"timeout_ms": REMOVED}, stuck=30_001)


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


@pytest.mark.parametrize(
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
def test_a_template_that_cannot_be_resolved_is_unprocessable(transport, changes, pointer, options):
    expected = InvalidRequestError if pointer == "/spec/method" else TemplateError
    with pytest.raises(expected) as caught:
        check(transport, changes, **options)
    assert [detail["pointer"] for detail in caught.value.details] == [pointer]


def test_a_config_variable_needs_a_config():
    with pytest.raises(TemplateError, match="names none") as caught:
        check(HTTP, {}, config=None)
    assert [item["pointer"] for item in caught.value.details] == ["/spec/url", "/spec/body_template/sender"]


@pytest.mark.parametrize(
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
def test_a_closed_payload_spec_says_which_input_is_possible(path, possible):
    changes = {"body_template": "{{input." + path + "}}"}
    if possible:
        check(HTTP, changes, schema=CLOSED)
    else:
        with pytest.raises(TemplateError, match="payload spec"):
            check(HTTP, changes, schema=CLOSED)


@pytest.mark.parametrize(
    "schema", [None, {}, True, {"type": "object"}, {"patternProperties": {"(": {}}, "additionalProperties": False}]
)
def test_an_open_payload_spec_allows_any_input(schema):
    check(HTTP, {"body_template": "{{input.a.b.0}}"}, schema=schema)


@pytest.mark.parametrize(
    "policy",
    [
        None,
        {},
        {"max_attempts": 100, "backoff": "linear", "initial_delay_ms": 0, "max_delay_ms": 0},
        {"backoff": "fixed", "max_delay_ms": 86_400_000, "initial_delay_ms": 86_400_000},
        {"backoff": "decorrelated", "initial_delay_ms": 10},
        {"backoff": "custom", "delays_ms": [0, 86_400_000], "initial_delay_ms": 60_001},
        {"backoff": "custom", "delays_ms": [1] * 100},
        {"fail_on": [], "max_age_ms": None},
        {"fail_on": [100, 599, "TIMEOUT", "WORKER_LOST"], "max_age_ms": 1},
    ],
)
def test_a_retry_policy_is_fine(policy):
    check_retry_policy(policy)


@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ([], "/retry_policy"),
        ({"max_attempts": 0}, "/retry_policy/max_attempts"),
        ({"max_attempts": 101}, "/retry_policy/max_attempts"),
        ({"max_attempts": True}, "/retry_policy/max_attempts"),
        ({"max_attempts": None}, "/retry_policy/max_attempts"),
        ({"backoff": "random"}, "/retry_policy/backoff"),
        ({"initial_delay_ms": -1}, "/retry_policy/initial_delay_ms"),
        ({"max_delay_ms": 86_400_001}, "/retry_policy/max_delay_ms"),
        ({"initial_delay_ms": 60_001}, "/retry_policy/initial_delay_ms"),
        ({"max_delay_ms": 999}, "/retry_policy/initial_delay_ms"),
        ({"attempts": 3}, "/retry_policy/attempts"),
        ({"delays_ms": [1]}, "/retry_policy/delays_ms"),
        ({"backoff": "custom"}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": []}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": [1] * 101}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": [1, -1]}, "/retry_policy/delays_ms/1"),
        ({"backoff": "custom", "delays_ms": [86_400_001]}, "/retry_policy/delays_ms/0"),
        ({"fail_on": 503}, "/retry_policy/fail_on"),
        ({"fail_on": [401, 600]}, "/retry_policy/fail_on/1"),
        ({"fail_on": [True]}, "/retry_policy/fail_on/0"),
        ({"fail_on": ["TIMEUOT"]}, "/retry_policy/fail_on/0"),
        ({"fail_on": [401] * 101}, "/retry_policy/fail_on"),
        ({"max_age_ms": 0}, "/retry_policy/max_age_ms"),
        ({"max_age_ms": 30 * 86_400_000 + 1}, "/retry_policy/max_age_ms"),
    ],
)
def test_a_retry_policy_is_refused(policy, pointer):
    with pytest.raises(InvalidRequestError) as caught:
        check_retry_policy(policy)
    assert [detail["pointer"] for detail in caught.value.details] == [pointer]
