"""Validation of the fields of a spec: accepted specs, refused specs, and the pointers in errors."""

import json
import re
from pathlib import Path

import pytest

from app.catalog.check_spec import check_spec
from app.kernel.errors import InvalidRequestError
from tests.cases import each_case
from tests.unit.catalog.example_specs import EXAMPLES, HEADER, HTTP, KAFKA, REDIS, REMOVED, check


@pytest.mark.parametrize("transport", EXAMPLES)
def test_example_of_each_transport_is_accepted(transport):
    check(transport, {})


def test_endpoint_of_the_receiver_documentation_is_accepted():
    manual = (Path(__file__).parents[3] / "docs/tutorial/receiving.md").read_text(encoding="utf-8")
    (example,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", manual, re.DOTALL))
    check_spec(
        HTTP,
        example["spec"],
        config=None,
        secret_names_exist=set,
        payload_schema=None,
        stuck_timeout_ms=60_000,
    )


MINIMAL = {
    HTTP: {"url": "https://h/"},
    KAFKA: {"bootstrap_servers": "k:9092", "topic": "t", "value_template": None},
    REDIS: {"redis_url": "rediss://h", "stream": "s", "fields_template": {"a": 1}},
}


@pytest.mark.parametrize("transport", MINIMAL)
def test_required_fields_suffice(transport):
    check_spec(
        transport,
        MINIMAL[transport],
        config=None,
        secret_names_exist=lambda _: pytest.fail("looked up secrets without names"),
        payload_schema=None,
        stuck_timeout_ms=60_000,
    )


@pytest.mark.parametrize("changes", [{}, {"metadata": False}, {"metadata": True, "fields_template": {"te": 1}}])
def test_any_field_name_is_accepted_without_metadata(changes):
    check(REDIS, {"fields_template": {"te-job-id": 1, "traceparent": 2}} | changes)


@each_case(
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
        (HTTP, {"soft_timeout_ms": 0}, "/spec/soft_timeout_ms"),
        (HTTP, {"soft_timeout_ms": None}, "/spec/soft_timeout_ms"),
        (HTTP, {"soft_timeout_ms": 30_000}, "/spec/soft_timeout_ms"),
        (HTTP, {"timeout_ms": 10, "soft_timeout_ms": 10}, "/spec/soft_timeout_ms"),
        (HTTP, {"expected_status_codes": []}, "/spec/expected_status_codes"),
        (HTTP, {"expected_status_codes": 200}, "/spec/expected_status_codes"),
        (HTTP, {"expected_status_codes": [200, 99]}, "/spec/expected_status_codes/1"),
        (HTTP, {"expected_status_codes": ["200"]}, "/spec/expected_status_codes/0"),
        (KAFKA, {"bootstrap_servers": REMOVED}, "/spec/bootstrap_servers"),
        (KAFKA, {"bootstrap_servers": 5}, "/spec/bootstrap_servers"),
        (KAFKA, {"bootstrap_servers": "k:9092,\u00e9:9092"}, "/spec/bootstrap_servers"),
        (KAFKA, {"bootstrap_servers": "SSL://k:9092"}, "/spec/bootstrap_servers"),
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
        (KAFKA, {"properties": {"sasl.password": "in the open"}}, "/spec/properties/sasl.password"),
        (KAFKA, {"properties": {"sasl.password": "{{config.password}}"}}, "/spec/properties/sasl.password"),
        (KAFKA, {"properties": {"ssl.key.pem": "-----BEGIN\n{{secret.token}}"}}, "/spec/properties/ssl.key.pem"),
        (KAFKA, {"properties": {"ssl.key.password": ""}}, "/spec/properties/ssl.key.password"),
        (KAFKA, {"properties": {"receive.message.max.bytes": "1e9"}}, "/spec/properties/receive.message.max.bytes"),
        (HTTP, {"url": "https://u:in-the-open@h/"}, "/spec/url"),
        (HTTP, {"url": "https://u:in-the-open@h/{{input.user_id}}"}, "/spec/url"),
        (HTTP, {"url": "https://u:{secret.email_api_key}@h/"}, "/spec/url"),
        (HTTP, {"url": "https://{{config.api_base_url}}:in-the-open@h/"}, "/spec/url"),
        (HTTP, {"url": "https://u:{{config.api_base_url}}@h/"}, "/spec/url"),
        (HTTP, {"url": "https://me@corp.com:in-the-open@h/x"}, "/spec/url"),
        (HTTP, {"url": "{{config.api_base_url}}://u:in-the-open@h/"}, "/spec/url"),
        (HTTP, {"url": "https://u:in-the-open{{secret.email_api_key}}@h/"}, "/spec/url"),
        (HTTP, {"url": "https://u:{{secret.email_api_key}}@h:in-the-open@x/"}, "/spec/url"),
        (HTTP, {"url": "https://u:{{config.api_base_url}}{{secret.email_api_key}}@h/"}, "/spec/url"),
        (REDIS, {"redis_url": "redis://me@corp:in-the-open@h/0"}, "/spec/redis_url"),
        (REDIS, {"redis_url": "redis://:in-the-open@h:6379/0"}, "/spec/redis_url"),
        (REDIS, {"redis_url": "http://h"}, "/spec/redis_url"),
        (REDIS, {"redis_url": "unix:///run/redis"}, "/spec/redis_url"),
        (REDIS, {"stream": REMOVED}, "/spec/stream"),
        (REDIS, {"fields_template": {}}, "/spec/fields_template"),
        (REDIS, {"fields_template": "{{input.x}}"}, "/spec/fields_template"),
        (REDIS, {"max_len": 0}, "/spec/max_len"),
        (REDIS, {"max_len": "100"}, "/spec/max_len"),
        (REDIS, {"max_len": 2**53}, "/spec/max_len"),
        (REDIS, {"max_len": True}, "/spec/max_len"),
        (REDIS, {"metadata": 1}, "/spec/metadata"),
        *(
            (REDIS, {"metadata": True, "fields_template": {"a": 1, name: "x"}}, f"/spec/fields_template/{name}")
            for name in ("te-job-id", "TE-Attempt", "te-", "traceparent")
        ),
        (REDIS, {"approximate_trimming": 1}, "/spec/approximate_trimming"),
        (REDIS, {"approximate_trimming": "yes"}, "/spec/approximate_trimming"),
    ],
)
def test_invalid_field_is_refused_with_its_pointer(transport, changes, pointer):
    with pytest.raises(InvalidRequestError) as caught:
        check(transport, changes)
    assert {detail["pointer"] for detail in caught.value.details} == {pointer}
    assert pointer in caught.value.message


@pytest.mark.parametrize(
    ("transport", "changes"),
    [
        (KAFKA, {"properties": {"sasl.password": "{{secret.email_api_key}}", "sasl.username": "u"}}),
        (KAFKA, {"properties": {"ssl.key.pem": " {{ secret.email_api_key }}\n"}}),
        (HTTP, {"url": "https://u:{{secret.email_api_key}}@h/a:b@c"}),
        (HTTP, {"url": "https://{{config.api_base_url}}:{{ secret.email_api_key }}@h/"}),
        (HTTP, {"url": "https://u@h/?a:b@c"}),
        (REDIS, {"redis_url": "redis://u:{{secret.email_api_key}}@h"}),
    ],
)
def test_password_from_a_secret_is_accepted(transport, changes):
    check(transport, changes)


@pytest.mark.parametrize("spec", [None, [], "x", 5])
def test_spec_must_be_an_object(spec):
    with pytest.raises(InvalidRequestError, match="object"):
        check_spec(HTTP, spec, config=None, secret_names_exist=set, payload_schema=None, stuck_timeout_ms=60_000)


def test_default_timeout_must_be_below_the_stuck_timeout():
    with pytest.raises(InvalidRequestError, match="timeout_ms"):
        check(HTTP, {"timeout_ms": REMOVED}, stuck=30_000)
    check(HTTP, {"timeout_ms": REMOVED}, stuck=30_001)
