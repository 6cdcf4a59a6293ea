"""The shape of each transport's `spec` and of a retry policy: fields, types, ranges, names that are ours."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.executions.backoff import BACKOFFS, MAX_DELAY_MS, RetryPolicy
from app.executions.model import RETRIED_ERRORS
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

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SOLE_SECRET = re.compile(r"\s*\{\{\s*secret\.[^{}]+\}\}\s*")
_SOLE_PLACEHOLDER = re.compile(r"\s*\{\{.*\}\}\s*", re.DOTALL)
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


def _headers(reserved: re.Pattern[str], *, token: bool) -> Callable[[Any], None]:
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

    return check


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


def _count_or_placeholder(value: Any) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_count and not (isinstance(value, str) and _SOLE_PLACEHOLDER.fullmatch(value)):
        raise ValidationError("a whole number of at least 1, or one {{config.…}} placeholder, is needed")


def _status_or_type(value: Any) -> None:
    is_status = isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599
    if not is_status and not (isinstance(value, str) and value in RETRIED_ERRORS):
        raise ValidationError(f"an HTTP status, 100 to 599, or one of {', '.join(RETRIED_ERRORS)} is needed")


def _boolean(value: Any) -> None:
    if not isinstance(value, bool):
        raise ValidationError("true or false is needed")


def _some_fields(value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        raise ValidationError("an object with at least one field is needed")


def _http_url(value: str) -> None:
    if "{{" not in value and not re.match(r"https?://[^/?#]", value, re.IGNORECASE):
        raise ValidationError("a URL starting with http:// or https:// is needed")


def _redis_url(value: str) -> None:
    if "{{" not in value and not re.match(r"rediss?://[^/?#]", value, re.IGNORECASE):
        raise ValidationError("a URL starting with redis:// or rediss:// is needed")


def _sole_secret(value: str) -> None:
    if not _SOLE_SECRET.fullmatch(value):
        raise ValidationError("one {{secret.…}} placeholder is needed")


class SigningSpec(Schema):
    """`signing` of an HTTP endpoint: Standard Webhooks with a secret, and during a rotation with the one before too."""

    secret = fields.String(required=True, validate=_sole_secret)
    previous_secret = fields.String(validate=_sole_secret)


class HttpSpec(Schema):
    """`spec` of an HTTP endpoint."""

    url = fields.String(required=True, validate=[validate.Length(1, 8192), _http_url])
    method = fields.String(validate=validate.OneOf(METHODS))
    headers = fields.Raw(validate=_headers(_HTTP_RESERVED, token=True))
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
    headers = fields.Raw(validate=_headers(_KAFKA_RESERVED, token=False))
    properties = fields.Raw(validate=_properties)
    acks = fields.String(validate=validate.OneOf(ACKS))
    timeout_ms = _whole(1, MAX_DELAY_MS)


class RedisStreamSpec(Schema):
    """`spec` of a Redis Stream endpoint."""

    redis_url = fields.String(required=True, validate=[validate.Length(1, 8192), _redis_url])
    stream = _text(required=True)
    fields_template = fields.Raw(required=True, validate=_some_fields)
    max_len = fields.Raw(validate=_count_or_placeholder)
    approximate_trimming = fields.Raw(validate=_boolean)
    timeout_ms = _whole(1, MAX_DELAY_MS)


class RetryPolicySpec(Schema):
    """`retry_policy` of any endpoint; no wait is longer than 24 hours."""

    max_attempts = _whole(1, 100)
    backoff = fields.String(validate=validate.OneOf(BACKOFFS))
    initial_delay_ms = _whole(0, MAX_DELAY_MS)
    max_delay_ms = _whole(0, MAX_DELAY_MS)
    delays_ms = fields.List(_whole(0, MAX_DELAY_MS), validate=validate.Length(1, MAX_DELAYS))
    fail_on = fields.List(fields.Raw(validate=_status_or_type), validate=validate.Length(max=MAX_FINAL))
    max_age_ms = _whole(1, MAX_AGE_MS, allow_none=True)

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
