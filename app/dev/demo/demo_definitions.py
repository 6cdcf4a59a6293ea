"""Definitions that the demo registers."""

from typing import Any

from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.stack_client import Definition, endpoint
from schema.states import EndpointType

TOPIC = "demo.orders"
STREAM = "demo:orders"
SECRET = "demo-token"
SPEC = "demo-order"
CONFIG = "demo-targets"
RECEIVER_PATH = "/ok/orders"
FLAKY_PATH = "/flaky/1/orders"
PEOPLE_PATH = "/ok/people"

_RETRIES = {"max_attempts": 5, "backoff": "exponential", "initial_delay_ms": 500, "max_delay_ms": 5000}
_COMMON: dict[str, Any] = {"payload_spec": SPEC, "config": CONFIG, "retry_policy": _RETRIES}
_ORDER_SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
_ORDER = {"order_id": "{{input.order_id}}", "amount": "{{input.amount}}"}
_KAFKA = {
    "bootstrap_servers": "{{config.bootstrap_servers}}",
    "topic": "{{config.topic}}",
    "acks": "all",
    "key_template": "{{input.order_id}}",
    "value_template": _ORDER,
    "headers": {"ce-type": "order.placed", "ce-source": "task-executor-demo"},
    "timeout_ms": 10_000,
}
_REDIS_STREAM = {
    "redis_url": "{{config.redis_url}}",
    "stream": "{{config.stream}}",
    "fields_template": _ORDER,
    "max_len": 1000,
    "timeout_ms": 3000,
}

# A webhook, by the scheme json. Mail, Slack, Teams and ntfy differ from this webhook only in their URLs.
_NOTIFICATION = {
    "url": "json://{{config.receiver}}" + PEOPLE_PATH,
    "title": "{{input.order_id}}",
    "body": "An order of {{input.amount}}.",
}


def definitions(targets: LocalTargets, secret: str) -> list[Definition]:
    """Return the definitions to register, referenced definitions first."""
    config = {
        "receiver_url": targets.receiver.base_url,
        "receiver": targets.receiver.base_url.removeprefix("http://"),
        "bootstrap_servers": targets.kafka.bootstrap,
        "topic": TOPIC,
        "redis_url": targets.valkey.url,
        "stream": STREAM,
    }
    return [
        Definition(
            "/payload-specs", {"name": SPEC, "schema": _ORDER_SCHEMA}, "a JSON Schema that each job's input must match"
        ),
        Definition("/configs", {"name": CONFIG, "values": config}, "addresses, used as {{config.…}}"),
        Definition("/secrets", {"name": SECRET, "value": secret}, "token, used as {{secret.…}} and never shown again"),
        _http("demo-http", RECEIVER_PATH, f"HTTP: POST {RECEIVER_PATH}"),
        _http("demo-http-flaky", FLAKY_PATH, "HTTP that fails once: to see a retry"),
        endpoint(EndpointType.KAFKA, "demo-kafka", _KAFKA, f"Kafka topic {TOPIC}", **_COMMON),
        endpoint(EndpointType.REDIS_STREAM, "demo-redis", _REDIS_STREAM, f"Redis stream {STREAM}", **_COMMON),
        endpoint(
            EndpointType.NOTIFICATION,
            "demo-people",
            _NOTIFICATION,
            f"people, here by a webhook: {PEOPLE_PATH}",
            **_COMMON,
        ),
    ]


def _http(name: str, path: str, why: str) -> Definition:
    headers = {"Authorization": "Bearer {{secret." + SECRET + "}}", "Content-Type": "application/json"}
    spec = {"url": "{{config.receiver_url}}" + path, "method": "POST", "body_template": _ORDER}
    return endpoint(EndpointType.HTTP, name, spec | {"headers": headers, "timeout_ms": 5000}, why, **_COMMON)
