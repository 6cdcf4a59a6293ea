"""Catalogue of a run: endpoints to recording receivers, all named after the run, removed again at the end."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.stack_client import Api
from app.dev.stack.stack_definitions import Definition, http, kafka, redis_stream, register
from app.dev.verify.flow.flow_endpoints import FlowEndpoints

_RETRIES = {"max_attempts": 20, "backoff": "fixed", "initial_delay_ms": 200, "max_delay_ms": 1000}
_FEW_RETRIES = _RETRIES | {"max_attempts": 2}
_TIMEOUT = {"timeout_ms": 5000}
_HANGING_TIMEOUT = {"timeout_ms": 2000}
_HELD_TIMEOUT = {"timeout_ms": 120_000}
_BODY = {"key": "{{input.key}}"}
# How the receiver behaves, and how often such an endpoint is chosen.
_HTTP = {"ok": ("/ok", 8), "slow": ("/slow/150", 2), "flaky": ("/flaky/1", 1), "lost": ("/lost/1", 1)}
_KAFKA_WEIGHT = _REDIS_WEIGHT = 4
_SECRET_WEIGHT = 2
# They fail on purpose, and share the receiver's host with all others.
_NO_BREAKER: dict[str, Any] = {"breaker": "off"}
_FAILING = frozenset({"flaky", "lost"})


@dataclass(frozen=True, slots=True)
class WeightedEndpoint:
    """One endpoint, and how often it is chosen."""

    name: str
    weight: int


class Catalogue:
    """The names of one run."""

    def __init__(self, run: str) -> None:
        self.topic = f"verify-{run}"
        self.stream = f"verify:{run}"
        self._prefix = f"verify-{run}"
        self.targets = [
            *(WeightedEndpoint(f"{self._prefix}-http-{name}", weight) for name, (_path, weight) in _HTTP.items()),
            WeightedEndpoint(f"{self._prefix}-kafka", _KAFKA_WEIGHT),
            WeightedEndpoint(f"{self._prefix}-redis", _REDIS_WEIGHT),
            WeightedEndpoint(f"{self._prefix}-http-secret", _SECRET_WEIGHT),
        ]
        self.flow = FlowEndpoints(f"{self._prefix}-http")
        self.hanging = f"{self._prefix}-http-hanging"
        self.held = f"{self._prefix}-http-held"
        self.secret_name = f"{self._prefix}-token"
        self.canary = f"canary-{secrets.token_urlsafe(24)}"
        """The secret's value, which no row and no log may hold."""

    @property
    def names(self) -> list[str]:
        """The names of the endpoints."""
        return [*(target.name for target in self.targets), *self.flow.names, self.hanging, self.held]

    @property
    def slow(self) -> str:
        """The endpoint whose receiver takes its time."""
        return f"{self._prefix}-http-slow"

    @property
    def steady(self) -> list[str]:
        """One endpoint of each transport, for the jobs that repeat."""
        return [f"{self._prefix}-http-ok", f"{self._prefix}-kafka", f"{self._prefix}-redis"]

    def register(self, api: Api, targets: LocalTargets) -> None:
        """Register everything through the API."""
        api.post("/secrets", {"name": self.secret_name, "value": self.canary})
        register(api, self._definitions(targets))

    def remove(self, api: Api) -> None:
        """Delete the endpoints; the history of their jobs stays readable, as that of any deleted endpoint."""
        for name in self.names:
            api.delete(f"/endpoints/{name}")
        api.delete(f"/secrets/{self.secret_name}")

    def gate_path(self, gate: str) -> str:
        """Return the path under which the receiver holds the answers to one crowd."""
        return f"/held/{gate}"

    def _definitions(self, targets: LocalTargets) -> Iterator[Definition]:
        base = targets.receiver.base_url
        for name, (path, _weight) in _HTTP.items():
            url = f"{base}{path}/{self._prefix}"
            own = _NO_BREAKER if name in _FAILING else {}
            yield http(f"{self._prefix}-http-{name}", url, _BODY, spec=_TIMEOUT, retry_policy=_RETRIES, **own)
        told = _TIMEOUT | {"headers": {"X-Token": f"{{{{secret.{self.secret_name}}}}}"}}
        # It sends back the headers it got, the secret among them.
        yield http(
            f"{self._prefix}-http-secret", f"{base}/echo/{self._prefix}", _BODY, spec=told, retry_policy=_RETRIES
        )
        yield from self.flow.definitions(base)
        hang = f"{base}/hang/{self._prefix}"
        yield http(self.hanging, hang, _BODY, spec=_HANGING_TIMEOUT, retry_policy=_FEW_RETRIES, **_NO_BREAKER)
        held = f"{base}{self.gate_path('{{input.word}}')}"
        yield http(self.held, held, _BODY, spec=_HELD_TIMEOUT, retry_policy=_RETRIES, **_NO_BREAKER)
        topic = {"bootstrap_servers": targets.kafka.bootstrap, "topic": self.topic, "key_template": "{{input.key}}"}
        yield kafka(f"{self._prefix}-kafka", topic | {"value_template": _BODY} | _TIMEOUT, retry_policy=_RETRIES)
        stream = {"redis_url": targets.valkey.url, "stream": self.stream, "fields_template": _BODY}
        yield redis_stream(f"{self._prefix}-redis", stream | _TIMEOUT, retry_policy=_RETRIES)
