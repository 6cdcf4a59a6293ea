"""Kafka: a record in a topic."""

import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

from marshmallow import ValidationError, fields, validate

from app.catalog.specs.spec_fields import (
    NOT_SOLE_SECRET,
    RESERVED_METADATA,
    SOLE_SECRET,
    DescribedValue,
    TextInOrder,
    header_map,
    matches,
    milliseconds,
    soft_milliseconds,
    templated,
    text,
)
from app.catalog.specs.transport import Example, Outcome, Transport
from app.catalog.templates.compilation import ALL, CONFIG, INPUT, SECRET, FieldKind
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema

ACKS = ("0", "1", "all")
PROPERTIES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.key.password",
    "receive.message.max.bytes",
)
SECRET_PROPERTIES = frozenset({"sasl.password", "ssl.key.pem", "ssl.key.password"})
_CERTIFICATES = frozenset({"ssl.ca.pem", "ssl.certificate.pem"})

MAX_HOST = 253

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_PORT = re.compile(r"[0-9]{1,5}")
_FORM = "Must be host:port entries, separated by commas"

_PROPERTIES_SCHEMA = {
    "type": "object",
    "properties": {
        name: {"type": "string"}
        | ({"pattern": SOLE_SECRET.pattern} if name in SECRET_PROPERTIES else {})
        | ({"contentMediaType": "application/x-pem-file"} if name in _CERTIFICATES else {})
        for name in PROPERTIES
    },
    "additionalProperties": False,
}


def _check_properties(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("Must be an object of strings.")
    faults = {name: fault for name, content in value.items() if (fault := _fault_of_property(name, content))}
    if faults:
        raise ValidationError(faults)


def _fault_of_property(name: str, content: Any) -> str | None:
    if name not in PROPERTIES:
        return f"Must be one of: {', '.join(PROPERTIES)}."
    if not isinstance(content, str):
        return "Must be a string."
    if name in SECRET_PROPERTIES and not SOLE_SECRET.match(content):
        return NOT_SOLE_SECRET
    if name == "receive.message.max.bytes" and not ("{{" in content or re.fullmatch("[1-9][0-9]{3,8}", content)):
        return "Must be a number of bytes from 1000 to 999999999, as a string."
    return None


# Pattern for the OpenAPI document: a template, or a list; `_check_servers` then checks each entry.
_SERVER = r"\s*([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}\s*"
_SERVERS = re.compile(rf"^([\s\S]*\{{\{{|{_SERVER}(,{_SERVER})*$)")
_IS_LIST = matches(_SERVERS, f"{_FORM}.")


def _check_servers(value: str) -> None:
    if "{{" in value:
        return
    try:
        parse_servers(value)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def parse_servers(text: str) -> list[tuple[str, int]]:
    """Read `host:port` entries; raises ValueError, without the text in its message, for anything else.

    librdkafka accepts more: a scheme, a path, letters after the port, an empty host for localhost. A check of the
    addresses would read such entries differently.
    """
    return [_server(entry.strip()) for entry in text.split(",")]


def joined_servers(servers: list[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def _server(entry: str) -> tuple[str, int]:
    host, colon, port = entry.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{_FORM}, with a port from 1 to 65535.")
    if host.startswith("[") and host.endswith("]"):
        return _address(host[1:-1]), int(port)
    if len(host) > MAX_HOST or not _HOST.fullmatch(host):
        raise ValueError(f"{_FORM}, with host names of at most {MAX_HOST} ASCII letters, digits, hyphens and dots.")
    return host, int(port)


def _address(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        address = None
    if address is None or address.scope_id:
        raise ValueError(f"{_FORM}, with an IPv6 address in brackets, without a zone.")
    return str(address)


class KafkaSpec(StrictSchema):
    """`spec` of a Kafka endpoint."""

    bootstrap_servers = templated(
        TextInOrder(required=True, validate=[validate.Length(1, 1024), _IS_LIST, _check_servers]),
        FieldKind.LINE,
        CONFIG | SECRET,
    )
    topic = templated(text(required=True), FieldKind.LINE, CONFIG)
    key_template = templated(fields.String(allow_none=True), FieldKind.VALUE, INPUT | CONFIG)
    value_template = templated(fields.Raw(required=True, allow_none=True), FieldKind.VALUE, ALL)
    headers = templated(header_map(RESERVED_METADATA, are_tokens=False), FieldKind.LINE, ALL)
    # TEXT rather than LINE: certificates have several lines.
    properties = templated(
        DescribedValue(_check_properties, _PROPERTIES_SCHEMA, load_default={}), FieldKind.TEXT, CONFIG | SECRET
    )
    acks = fields.String(validate=validate.OneOf(ACKS), load_default="all")
    timeout_ms = milliseconds(load_default=10_000)
    soft_timeout_ms = soft_milliseconds()


class KafkaOutput(Outcome):
    """Place of a record."""

    partition = fields.Integer(required=True)
    offset = fields.Integer(
        required=True,
        allow_none=True,
        **described('`null` if brokers do not report it: with `acks: "0"`, or after a resend'),
    )


def _target(spec: Mapping[str, Any]) -> str:
    servers = {(host.lower(), port) for host, port in parse_servers(spec["bootstrap_servers"])}
    return "kafka:" + joined_servers(sorted(servers))


TRANSPORT = Transport(
    title="Kafka",
    noun="a Kafka topic",
    target=_target,
    spec=KafkaSpec(),
    output=KafkaOutput(),
    errors=("BROKER_ERROR", "CONNECTION_ERROR", "TIMEOUT"),
    examples=(
        Example(
            name="publish-order-event",
            payload_spec={
                "name": "order-event-input",
                "schema": {"type": "object", "required": ["order_id", "event_type"]},
            },
            config={
                "name": "order-events",
                "values": {"bootstrap_servers": "kafka-1:9092,kafka-2:9092", "topic": "order.events.v1"},
            },
            spec={
                "bootstrap_servers": "{{config.bootstrap_servers}}",
                "topic": "{{config.topic}}",
                "key_template": "{{input.order_id}}",
                "value_template": {"event_type": "{{input.event_type}}", "order_id": "{{input.order_id}}"},
                "headers": {"ce-type": "order.{{input.event_type}}", "ce-source": "task-executor"},
                "acks": "all",
                "timeout_ms": 10000,
            },
        ),
    ),
)
