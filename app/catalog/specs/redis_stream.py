"""Redis Streams: an entry in a stream."""

import re
from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from app.catalog.specs.spec_fields import (
    RESERVED_METADATA,
    DescribedValue,
    Flag,
    milliseconds,
    soft_milliseconds,
    target_url,
    templated,
    text,
)
from app.catalog.specs.transport import Example, Outcome, Transport, server_of
from app.catalog.templates.compilation import ALL, CONFIG, SECRET, FieldKind
from app.catalog.templates.nodes import MAX_COUNT, is_count
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema

_DEFAULT_PORT = 6379
_SOLE_PLACEHOLDER = re.compile(r"^\s*\{\{[\s\S]*\}\}\s*$")
_COUNT_OR_PLACEHOLDER_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
        {"type": "string", "pattern": _SOLE_PLACEHOLDER.pattern},
    ]
}
_SOME_FIELDS_SCHEMA = {"type": "object", "minProperties": 1}


def _check_count_or_placeholder(value: Any) -> None:
    if not is_count(value) and not (isinstance(value, str) and _SOLE_PLACEHOLDER.fullmatch(value)):
        raise ValidationError(f"Must be a whole number from 1 to {MAX_COUNT}, or one {{{{config.NAME}}}} placeholder.")


def _check_some_fields(value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        raise ValidationError("Must be an object with at least one field.")


class RedisStreamSpec(StrictSchema):
    """`spec` of a Redis Stream endpoint."""

    redis_url = target_url("redis", CONFIG | SECRET)
    stream = templated(text(required=True), FieldKind.LINE, CONFIG)
    fields_template = templated(
        DescribedValue(_check_some_fields, _SOME_FIELDS_SCHEMA, required=True), FieldKind.VALUE, ALL
    )
    max_len = templated(
        DescribedValue(_check_count_or_placeholder, _COUNT_OR_PLACEHOLDER_SCHEMA), FieldKind.COUNT, CONFIG
    )
    approximate_trimming = Flag(load_default=True)
    metadata = Flag(
        load_default=False,
        **described(
            "add the fields `te-job-id`, `te-execution-id`, `te-idempotency-key`, `te-attempt`, "
            "`te-scheduled-at` and `traceparent` to each entry"
        ),
    )
    timeout_ms = milliseconds(load_default=3_000)
    soft_timeout_ms = soft_milliseconds()

    @validates_schema(skip_on_field_errors=True)
    def check_names(self, data: dict[str, Any], **_: Any) -> None:
        if data["metadata"]:
            taken = [name for name in data["fields_template"] if RESERVED_METADATA.fullmatch(name.lower())]
            fault = "With `metadata: true` the service sets this field. Use another name."
            if taken:
                raise ValidationError({"fields_template": {name: [fault] for name in taken}})


class RedisStreamOutput(Outcome):
    """Place of an entry."""

    message_id = fields.String(required=True, **described(example="1710499801234-0"))
    stream = fields.String(required=True)
    may_be_duplicate = fields.Boolean(
        **described("true if the marker of an earlier attempt with unknown result may have expired in Redis")
    )


def _target(spec: Mapping[str, Any]) -> str:
    return server_of(spec["redis_url"], _DEFAULT_PORT)


TRANSPORT = Transport(
    title="Redis Streams",
    noun="a Redis Stream",
    target=_target,
    spec=RedisStreamSpec(),
    output=RedisStreamOutput(),
    errors=("STREAM_ERROR", "TIMEOUT", "CONNECTION_ERROR"),
    examples=(
        Example(
            name="push-notification",
            payload_spec={
                "name": "notification-input",
                "schema": {"type": "object", "required": ["user_id", "title"]},
            },
            config={
                "name": "notification-stream",
                "values": {
                    "redis_url": "redis://redis-cluster:6379",
                    "stream_name": "notifications:outbound",
                    "max_stream_length": 100000,
                },
            },
            spec={
                "redis_url": "{{config.redis_url}}",
                "stream": "{{config.stream_name}}",
                "fields_template": {
                    "user_id": "{{input.user_id}}",
                    "title": "{{input.title}}",
                    "body": "{{input.body}}",
                },
                "max_len": "{{config.max_stream_length}}",
                "approximate_trimming": True,
                "timeout_ms": 3000,
            },
        ),
    ),
)
