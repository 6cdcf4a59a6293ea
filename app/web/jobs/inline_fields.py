"""Fields of a job that gives a URL instead of an endpoint, and their conversion to the fields of a job."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.catalog.endpoints.inline import FIELDS, InlineEndpoint, inline_endpoint
from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs.http import METHODS, SigningSpec
from app.catalog.specs.spec_fields import milliseconds, whole
from app.kernel.described_fields import described
from app.web.openapi.any_of import AnyOf
from schema.states import Trigger

_OTHER_FORM = ("endpoint", "input")
_OWN = {*FIELDS, *_OTHER_FORM, "body"}
_IMPLIED = {"run_at": Trigger.DELAYED, "delay": Trigger.DELAYED, "cron": Trigger.CRON, "every": Trigger.INTERVAL}


class InlineFields(Schema):
    """The fields, as the OpenAPI document describes them; the catalog validates them."""

    url = fields.String(
        allow_none=True,
        validate=validate.Length(1, 8192),
        **described(
            "instead of `endpoint` and `trigger`: the HTTP or HTTPS URL to send `body` to; needs the "
            "scope `jobs:send`. Neither templates nor secrets: those need an endpoint. The other fields decide the "
            "trigger when `trigger` is absent; without `idempotency_key`, each request creates a job",
            example="https://shop.example/reminders",
        ),
    )
    body = fields.Raw(allow_none=True, **described("with `url`: any JSON value to send; no body when absent"))
    method = fields.String(
        allow_none=True, validate=validate.OneOf(METHODS), **described("with `url`; `POST` when absent")
    )
    headers = fields.Dict(keys=fields.String(), values=fields.String(), allow_none=True, **described("with `url`"))
    timeout_ms = milliseconds(allow_none=True, **described("with `url`; 30000 when absent"))
    expected_status_codes = fields.List(
        whole(100, 599),
        allow_none=True,
        validate=validate.Length(min=1),
        **described("with `url`; 200, 201, 202 and 204 when absent"),
    )
    signing = fields.Nested(SigningSpec, allow_none=True, **described("with `url`"))
    retry_policy = AnyOf(RETRY_POLICY, allow_none=True, **described("with `url`"))


def without_url(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return a fault for each field that only a job with `url` can have."""
    names = (*FIELDS, "body")
    return {name: ["Only with `url`."] for name in names if data.get(name) is not None}


def as_job(data: Mapping[str, Any]) -> tuple[dict[str, Any], InlineEndpoint | None, dict[str, Any]]:
    """Return a job's fields for a body with `url`, its inline endpoint, and faults; with faults, there may be none."""
    faults: dict[str, Any] = {name: ["Not together with `url`."] for name in _OTHER_FORM if data.get(name) is not None}
    content, inline = data.get("body"), None
    try:
        inline = inline_endpoint(data, sends_body=content is not None)
    except ValidationError as error:
        faults |= error.messages_dict
    job = {name: value for name, value in data.items() if name not in _OWN}
    implied = [name for name in _IMPLIED if job.get(name) is not None]
    job["endpoint"] = inline.name if inline is not None else "none"
    if not job.get("trigger"):
        job["trigger"] = (_IMPLIED[implied[0]] if implied else Trigger.IMMEDIATE).value
        others = (name for name in implied[1:] if _IMPLIED[name] != job["trigger"])
        faults |= {name: [f"Not together with `{implied[0]}`."] for name in others}
    job["input"] = {} if content is None else {"body": content}
    return job, inline, faults
