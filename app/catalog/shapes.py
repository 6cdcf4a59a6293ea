"""The shape of each transport's `spec` and of a retry policy: fields, types, ranges, names that are ours."""

import re
from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.catalog.retry_policy import BACKOFFS, MAX_DELAY_MS, RETRIED_ERRORS, RetryPolicy
from app.catalog.shape_fields import Described, Flag
from app.catalog.templates.nodes import MAX_COUNT, is_count
from schema.states import EndpointType

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ACKS = ("0", "1", "all")
KAFKA_PROPERTIES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.key.password",
)
MAX_DELAYS = 100
MAX_FINAL = 100
MAX_AGE_MS = 30 * MAX_DELAY_MS

# The OpenAPI document shows these as they are: spelt so that they mean the same in ECMAScript, and to `match`.
_TOKEN = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
_SOLE_SECRET = re.compile(r"^\s*\{\{\s*secret\.[^{}]+\}\}\s*$")
_SOLE_PLACEHOLDER = re.compile(r"^\s*\{\{[\s\S]*\}\}\s*$")
_HTTP_URL = re.compile(r"^([\s\S]*\{\{|[Hh][Tt][Tt][Pp][Ss]?://[^/?#])")
_REDIS_URL = re.compile(r"^([\s\S]*\{\{|[Rr][Ee][Dd][Ii][Ss][Ss]?://[^/?#])")
# Ours, the connection's, or able to make two readers of one message disagree about where it ends.
_HTTP_RESERVED = re.compile(
    r"idempotency-key|traceparent|x-task-executor-.*|host|connection|content-length|transfer-encoding"
    r"|te|trailer|upgrade|expect|keep-alive|proxy-connection|webhook-(id|timestamp|signature)"
)
_KAFKA_RESERVED = re.compile(r"traceparent|te-.*")


def _whole(minimum: int, maximum: int, **options: Any) -> fields.Integer:
    return fields.Integer(strict=True, validate=validate.Range(minimum, maximum), **options)


def _text(maximum: int = 1024, **options: Any) -> fields.String:
    return fields.String(validate=validate.Length(1, maximum), **options)


def _url(pattern: re.Pattern[str], error: str) -> fields.String:
    return fields.String(required=True, validate=[validate.Length(1, 8192), validate.Regexp(pattern, error=error)])


def _headers(reserved: re.Pattern[str], *, token: bool) -> Described:
    def check(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise ValidationError("an object of strings is needed")
        faults, seen = {}, set()
        for name, text in value.items():
            if not isinstance(text, str):
                faults[name] = "a string is needed"
            elif not (_TOKEN.fullmatch(name) if token else name and name.isprintable()):
                faults[name] = "this is not a header name"
            elif reserved.fullmatch(name.lower()):
                faults[name] = "this header is set by the service and cannot be overridden"
            elif token and name.lower() in seen:
                faults[name] = "this header is given twice"
            seen.add(name.lower())
        if faults:
            raise ValidationError(faults)

    names = {"pattern": _TOKEN.pattern} if token else {"minLength": 1}
    return Described(
        check,
        {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": names},
        metadata={"description": "Not those that the service sets itself."},
    )


_PROPERTIES = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in KAFKA_PROPERTIES},
    "additionalProperties": False,
}


def _properties(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("an object of strings is needed")
    faults = {
        name: "a string is needed"
        if name in KAFKA_PROPERTIES
        else f"only these can be set: {', '.join(KAFKA_PROPERTIES)}"
        for name, text in value.items()
        if name not in KAFKA_PROPERTIES or not isinstance(text, str)
    }
    if faults:
        raise ValidationError(faults)


_COUNT_OR_PLACEHOLDER = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
        {"type": "string", "pattern": _SOLE_PLACEHOLDER.pattern},
    ]
}


def _count_or_placeholder(value: Any) -> None:
    if not is_count(value) and not (isinstance(value, str) and _SOLE_PLACEHOLDER.fullmatch(value)):
        raise ValidationError(f"a whole number from 1 to {MAX_COUNT}, or one {{{{config.…}}}} placeholder, is needed")


_STATUS_OR_TYPE = {
    "anyOf": [{"type": "integer", "minimum": 100, "maximum": 599}, {"type": "string", "enum": list(RETRIED_ERRORS)}]
}


def _status_or_type(value: Any) -> None:
    is_status = isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599
    if not is_status and not (isinstance(value, str) and value in RETRIED_ERRORS):
        raise ValidationError(f"an HTTP status, 100 to 599, or one of {', '.join(RETRIED_ERRORS)} is needed")


def _some_fields(value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        raise ValidationError("an object with at least one field is needed")


def _sole_secret(**options: Any) -> fields.String:
    only = validate.Regexp(_SOLE_SECRET, error="one {{secret.…}} placeholder is needed")
    return fields.String(validate=only, **options)


class SigningSpec(Schema):
    """`signing` of an HTTP endpoint: Standard Webhooks with a secret, and during a rotation with the one before too."""

    secret = _sole_secret(required=True)
    previous_secret = _sole_secret()


class HttpSpec(Schema):
    """`spec` of an HTTP endpoint."""

    url = _url(_HTTP_URL, "a URL starting with http:// or https:// is needed")
    method = fields.String(validate=validate.OneOf(METHODS))
    headers = _headers(_HTTP_RESERVED, token=True)
    body_template = fields.Raw(allow_none=True)
    signing = fields.Nested(SigningSpec)
    timeout_ms = _whole(1, MAX_DELAY_MS)
    expected_status_codes = fields.List(_whole(100, 599), validate=validate.Length(min=1))


class KafkaSpec(Schema):
    """`spec` of a Kafka endpoint."""

    bootstrap_servers = _text(required=True)
    topic = _text(required=True)
    key_template = fields.String(allow_none=True)
    value_template = fields.Raw(required=True, allow_none=True)
    headers = _headers(_KAFKA_RESERVED, token=False)
    properties = Described(_properties, _PROPERTIES)
    acks = fields.String(validate=validate.OneOf(ACKS))
    timeout_ms = _whole(1, MAX_DELAY_MS)


class RedisStreamSpec(Schema):
    """`spec` of a Redis Stream endpoint."""

    redis_url = _url(_REDIS_URL, "a URL starting with redis:// or rediss:// is needed")
    stream = _text(required=True)
    fields_template = Described(_some_fields, {"type": "object", "minProperties": 1}, required=True)
    max_len = Described(_count_or_placeholder, _COUNT_OR_PLACEHOLDER)
    approximate_trimming = Flag()
    timeout_ms = _whole(1, MAX_DELAY_MS)


class RetryPolicySpec(Schema):
    """`retry_policy` of any endpoint; no wait is longer than 24 hours."""

    max_attempts = _whole(1, 100)
    backoff = fields.String(validate=validate.OneOf(BACKOFFS))
    initial_delay_ms = _whole(0, MAX_DELAY_MS)
    max_delay_ms = _whole(0, MAX_DELAY_MS)
    delays_ms = fields.List(
        _whole(0, MAX_DELAY_MS),
        validate=validate.Length(1, MAX_DELAYS),
        metadata={"description": "of `custom`, which needs them: the waits; the last one repeats"},
    )
    fail_on = fields.List(
        Described(_status_or_type, _STATUS_OR_TYPE),
        validate=validate.Length(max=MAX_FINAL),
        metadata={"description": "HTTP statuses and types of errors that are final"},
    )
    max_age_ms = _whole(
        1,
        MAX_AGE_MS,
        allow_none=True,
        metadata={"description": "since `scheduled_at`: a retry that would start later is not made"},
    )

    @validates_schema
    def _together(self, data: Mapping[str, Any], **_options: Any) -> None:
        policy = RetryPolicy.from_json(data)
        if (policy.backoff == "custom") != ("delays_ms" in data):
            needed = (
                'are needed with backoff "custom"' if "delays_ms" not in data else 'belong to backoff "custom" only'
            )
            raise ValidationError(f"delays_ms {needed}", "delays_ms")
        # The waits of "custom" are a list, and these two, which an answer shows, without effect.
        if policy.backoff != "custom" and policy.initial_delay_ms > policy.max_delay_ms:
            raise ValidationError(
                f"initial_delay_ms ({policy.initial_delay_ms}) is greater than max_delay_ms ({policy.max_delay_ms})",
                "initial_delay_ms",
            )


SPECS: Mapping[EndpointType, Schema] = {
    EndpointType.HTTP: HttpSpec(),
    EndpointType.KAFKA: KafkaSpec(),
    EndpointType.REDIS_STREAM: RedisStreamSpec(),
}
RETRY_POLICY = RetryPolicySpec()
