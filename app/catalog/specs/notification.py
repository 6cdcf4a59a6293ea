"""Notifications: a message to people, by email, chat, push or a webhook."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.catalog.specs import channels
from app.catalog.specs.channel_presets import SCHEMES
from app.catalog.specs.http import SigningSpec
from app.catalog.specs.spec_fields import DescribedValue, milliseconds, soft_milliseconds, templated
from app.catalog.specs.transport import Example, Outcome, Transport
from app.catalog.templates.compilation import CONFIG, INPUT, SECRET, FieldKind
from app.catalog.templates.nodes import STAND_IN, Array, Constant, Node, SpecTemplate, UrlNode, as_text, resolve
from app.kernel.described_fields import described
from app.kernel.errors import Detail, TemplateError
from app.kernel.suggestions import StrictSchema

MAX_CHANNELS = 10
MAX_URL = 8_192
_A_URL = {"type": "string", "minLength": 1, "maxLength": MAX_URL}
_URLS_SCHEMA = {"anyOf": [_A_URL, {"type": "array", "items": _A_URL, "minItems": 1, "maxItems": MAX_CHANNELS}]}


def _check_urls(value: Any) -> None:
    urls = value if isinstance(value, list) else [value]
    if not 1 <= len(urls) <= MAX_CHANNELS:
        raise ValidationError(f"Must be one URL, or a list of 1 to {MAX_CHANNELS} URLs.")
    if not all(isinstance(url, str) and 1 <= len(url) <= MAX_URL for url in urls):
        raise ValidationError(f"Each URL must be a string of 1 to {MAX_URL} characters.")


class NotificationSpec(StrictSchema):
    """`spec` of a notification endpoint."""

    url = templated(
        DescribedValue(
            _check_urls,
            _URLS_SCHEMA,
            required=True,
            **described(f"a channel, such as `slack://…`, or up to {MAX_CHANNELS}; secrets are placeholders"),
        ),
        FieldKind.LOCATOR,
        CONFIG | SECRET,
        SCHEMES,
    )
    title = templated(
        fields.String(load_default="{{input.title}}", validate=validate.Length(0, 8192)), FieldKind.TEXT, INPUT | CONFIG
    )
    body = templated(
        fields.String(load_default="{{input.body}}", validate=validate.Length(0, 65_536)),
        FieldKind.TEXT,
        INPUT | CONFIG,
    )
    severity = templated(
        fields.String(
            validate=validate.Length(1, 1024),
            **described("`info`, `warning` or `critical` after rendering; marks the message"),
        ),
        FieldKind.TEXT,
        INPUT | CONFIG,
    )
    signing = templated(fields.Nested(SigningSpec), FieldKind.TEXT, SECRET)
    timeout_ms = milliseconds(load_default=30_000)
    soft_timeout_ms = soft_milliseconds()


class ChannelOutput(Schema):
    """Result of a message in one channel."""

    channel = fields.String(required=True, **described(example="mailtos:smtp.example.com:587"))
    status_code = fields.Integer(**described("last status of HTTP or SMTP", example=250))
    error = fields.String(**described(example="slack answered 503"))
    attempt = fields.Integer(**described("attempt that delivered the message, if an earlier one"))


class NotificationOutput(Outcome):
    """Channels that accepted a message."""

    channels = fields.List(fields.Nested(ChannelOutput), required=True)


def _target(spec: Mapping[str, Any]) -> str:
    urls = spec["url"] if isinstance(spec["url"], list) else [spec["url"]]
    return ",".join(sorted({channels.server_of(channels.divide(url)) for url in urls}))


def _faults(template: SpecTemplate, config: Mapping[str, Any]) -> Iterable[Detail]:
    """Report secrets in plain text, and parameters that are not allowed."""
    node = dict(template.root.items)["url"]
    for pointer, url in _urls(node, "/spec/url", config, secret=STAND_IN):
        for fault in channels.faults_of(url, STAND_IN):
            yield Detail(pointer=pointer, message=fault)


def _apart(template: SpecTemplate, config: Mapping[str, Any]) -> str:
    """Return the URLs with the names of secrets: services throttle per account, so each account is a target."""
    node = dict(template.root.items)["url"]
    return " ".join(sorted(url for _, url in _urls(node, "", config)))


def _urls(node: Node, pointer: str, config: Mapping[str, Any], secret: str | None = None) -> Iterator[tuple[str, str]]:
    """Return the URLs of a node with each secret replaced by `secret`; None keeps the placeholders."""
    match node:
        case UrlNode():
            try:
                yield pointer, _known(node, config, secret)
            except TemplateError:
                return  # the check of the config reports unresolvable placeholders
        case Array(items):
            for index, item in enumerate(items):
                yield from _urls(item, f"{pointer}/{index}", config, secret)
        case Constant(str() as url):
            yield pointer, url
        case Constant(list() as urls):
            for index, url in enumerate(urls):
                yield f"{pointer}/{index}", url


def _known(node: UrlNode, config: Mapping[str, Any], secret: str | None) -> str:
    url = ""
    for part, escape in node.pieces:
        if isinstance(part, str):
            url += part
        elif part.namespace == "secret":
            url += str(part) if secret is None else secret
        else:
            text = as_text(resolve(part, {"config": config}))
            url += escape(text) if escape else text
    return url


TRANSPORT = Transport(
    title="notifications",
    noun="people to notify",
    target=_target,
    spec=NotificationSpec(),
    output=NotificationOutput(),
    errors=("NOTIFICATION_ERROR", "TIMEOUT", "CONNECTION_ERROR"),
    examples=(
        Example(
            name="mail-operators",
            config={"name": "mail", "values": {"user": "alerts@example.com", "host": "smtp.example.com"}},
            spec={
                "url": "mailtos://{{config.user}}:{{secret.smtp_password}}@{{config.host}}?to=operators@example.com",
                "severity": "{{input.severity}}",
            },
        ),
        Example(
            name="notify-everybody",
            variant="several channels",
            spec={
                "url": ["slack://{{secret.slack_token}}/#alerts", "ntfys://ntfy.example.com/alerts"],
                "title": "Order {{input.order_id}}",
                "body": "{{input.text}}",
                "timeout_ms": 20_000,
            },
        ),
    ),
    faults=_faults,
    apart=_apart,
)
