"""HTTP: a request to a URL, signed if the endpoint asks for it."""

from collections.abc import Mapping
from typing import Any

from marshmallow import fields, validate

from app.catalog.specs.spec_fields import (
    header_map,
    milliseconds,
    soft_milliseconds,
    sole_secret,
    target_url,
    templated,
    whole,
)
from app.catalog.specs.transport import Example, Outcome, Transport, server_of
from app.catalog.templates.compilation import ALL, SECRET, FieldKind
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema
from schema.inline_bounds import RESERVED_HEADER

_DEFAULT_PORTS = {"http": 80, "https": 443}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class SigningSpec(StrictSchema):
    """`signing` of an HTTP endpoint: Standard Webhooks with a secret; during a rotation also with the previous secret.

    `X-Task-Executor-Attempt-Signature` signs the attempt's number as well.
    """

    secret = sole_secret(required=True)
    previous_secret = sole_secret()


class HttpSpec(StrictSchema):
    """`spec` of an HTTP endpoint."""

    url = target_url("http", ALL)
    method = fields.String(validate=validate.OneOf(METHODS), load_default="POST")
    headers = templated(header_map(RESERVED_HEADER, are_tokens=True), FieldKind.LINE, ALL)
    body_template = templated(fields.Raw(allow_none=True), FieldKind.VALUE, ALL)
    signing = templated(fields.Nested(SigningSpec), FieldKind.TEXT, SECRET)
    timeout_ms = milliseconds(load_default=30_000)
    soft_timeout_ms = soft_milliseconds()
    expected_status_codes = fields.List(
        whole(100, 599), validate=validate.Length(min=1), load_default=[200, 201, 202, 204]
    )


class HttpOutput(Outcome):
    """Answer of an HTTP endpoint."""

    status_code = fields.Integer(required=True)
    body = fields.String(**described("first 16 KiB of the body, unless `keep_response` excludes the body"))
    body_bytes = fields.Integer(
        **described("size of a body that is not kept, in bytes of text, of at most 24 KiB that are read")
    )


def _target(spec: Mapping[str, Any]) -> str:
    scheme = spec["url"].partition(":")[0].lower()
    return server_of(spec["url"], _DEFAULT_PORTS[scheme])


TRANSPORT = Transport(
    title="HTTP",
    noun="an HTTP URL",
    target=_target,
    spec=HttpSpec(),
    output=HttpOutput(),
    errors=("HTTP_ERROR", "TIMEOUT", "CONNECTION_ERROR"),
    examples=(
        Example(
            name="send-welcome-email",
            payload_spec={
                "name": "send-welcome-email-input",
                "schema": {
                    "type": "object",
                    "properties": {
                        "user_id": {"type": "string", "description": "Target user ID"},
                        "order_id": {"type": "string", "description": "Associated order ID"},
                    },
                    "required": ["user_id"],
                },
            },
            config={
                "name": "email-service",
                "values": {"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"},
            },
            spec={
                "url": "{{config.api_base_url}}/emails/welcome",
                "method": "POST",
                "headers": {"Authorization": "Bearer {{secret.email_api_key}}", "Content-Type": "application/json"},
                "body_template": {"user_id": "{{input.user_id}}", "sender": "{{config.sender}}"},
                "timeout_ms": 5000,
                "expected_status_codes": [200, 201, 202, 204],
            },
        ),
        Example(
            name="order-webhook",
            variant="signed",
            spec={
                "url": "https://shop.example/webhooks/orders/{{input.order_id}}",
                "body_template": "{{input.event}}",
                "signing": {"secret": "{{secret.webhook_key}}", "previous_secret": "{{secret.webhook_key_before}}"},
            },
            retry_policy={"max_attempts": 5, "backoff": "custom", "delays_ms": [1000, 60000], "fail_on": [401, 410]},
        ),
    ),
)
