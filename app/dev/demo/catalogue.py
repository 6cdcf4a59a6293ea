"""What the demo registers."""

from dataclasses import dataclass
from typing import Any

from app.dev.stack.targets import Targets

TOPIC = "demo.orders"
STREAM = "demo:orders"
SECRET = "demo-token"
SPEC = "demo-order"
CONFIG = "demo-targets"
RECEIVER_PATH = "/ok/orders"
FLAKY_PATH = "/flaky/1/orders"

_RETRIES = {"max_attempts": 5, "backoff": "exponential", "initial_delay_ms": 500, "max_delay_ms": 5000}
_ORDER = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One POST of the demo, and what it is good for."""

    path: str
    body: dict[str, Any]
    why: str


def entries(targets: Targets, secret: str) -> list[Entry]:
    """List what is registered, in the order in which one thing refers to another."""
    config = {
        "receiver_url": targets.receiver.base_url,
        "bootstrap_servers": targets.kafka.bootstrap,
        "topic": TOPIC,
        "redis_url": targets.valkey.url,
        "stream": STREAM,
    }
    return [
        Entry("/payload-specs", {"name": SPEC, "schema": _ORDER}, "a JSON Schema that each job's input must match"),
        Entry("/configs", {"name": CONFIG, "values": config}, "addresses, used as {{config.…}}"),
        Entry("/secrets", {"name": SECRET, "value": secret}, "a token, used as {{secret.…}} and never shown again"),
        Entry("/endpoints", _http("demo-http", RECEIVER_PATH), f"HTTP: POST {RECEIVER_PATH}"),
        Entry("/endpoints", _http("demo-http-flaky", FLAKY_PATH), "HTTP that fails once: to see a retry"),
        Entry("/endpoints", _kafka(), f"Kafka topic {TOPIC}"),
        Entry("/endpoints", _redis_stream(), f"Redis stream {STREAM}"),
    ]


def _http(name: str, path: str) -> dict[str, Any]:
    spec = {
        "url": "{{config.receiver_url}}" + path,
        "method": "POST",
        "headers": {"Authorization": "Bearer {{secret." + SECRET + "}}", "Content-Type": "application/json"},
        "body_template": {"order_id": "{{input.order_id}}", "amount": "{{input.amount}}"},
        "timeout_ms": 5000,
    }
    return _endpoint(name, "HTTP", spec)


def _kafka() -> dict[str, Any]:
    spec = {
        "bootstrap_servers": "{{config.bootstrap_servers}}",
        "topic": "{{config.topic}}",
        "key_template": "{{input.order_id}}",
        "value_template": {"order_id": "{{input.order_id}}", "amount": "{{input.amount}}"},
        "headers": {"ce-type": "order.placed", "ce-source": "task-executor-demo"},
        "acks": "all",
        "timeout_ms": 10_000,
    }
    return _endpoint("demo-kafka", "KAFKA", spec)


def _redis_stream() -> dict[str, Any]:
    spec = {
        "redis_url": "{{config.redis_url}}",
        "stream": "{{config.stream}}",
        "fields_template": {"order_id": "{{input.order_id}}", "amount": "{{input.amount}}"},
        "max_len": 1000,
        "timeout_ms": 3000,
    }
    return _endpoint("demo-redis", "REDIS_STREAM", spec)


def _endpoint(name: str, type_: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "type": type_,
        "payload_spec": SPEC,
        "config": CONFIG,
        "spec": spec,
        "retry_policy": _RETRIES,
    }
