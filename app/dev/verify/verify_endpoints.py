"""Endpoints of a run: to recording receivers, with names that begin with the run's, and deleted at its end."""

import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.stack_client import Api, Definition, Fields, endpoint, register
from app.dev.verify.evidence import Limit, StartRate
from schema.states import EndpointType

_BODY = {"key": "{{input.key}}"}
_TIMEOUT = {"timeout_ms": 5000}
_RETRIES = {"max_attempts": 20, "backoff": "fixed", "initial_delay_ms": 200, "max_delay_ms": 1000}
_MANY_RETRIES = {"retry_policy": _RETRIES | {"max_attempts": 60}}
# For endpoints that fail on purpose: they share the receiver's host with all other endpoints.
_NO_BREAKER = {"breaker": "off"}
_KEY_LIMIT, _KEYS = 2, 6
_LOW, _HIGH = 10, 200


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An HTTP endpoint: behaviour of its receiver, its jobs and its registration."""

    path: str
    weight: int = 0
    """Relative frequency among the endpoints of one-shot jobs."""
    jobs: tuple[Fields, ...] = ()
    """Additional fields of the jobs of a wave, in this order."""
    limit: Limit | None = None
    fields: Fields = field(default_factory=dict)
    spec: Fields = field(default_factory=dict)


_HTTP = {
    "ok": _Endpoint("/ok", 8),
    "slow": _Endpoint("/slow/150", 2),
    "flaky": _Endpoint("/flaky/1", 1, fields=_NO_BREAKER),
    "lost": _Endpoint("/lost/1", 1, fields=_NO_BREAKER),
    # The receiver returns the request's headers, and the secret with them.
    "secret": _Endpoint("/echo", 2),
    "hanging": _Endpoint(
        "/hang", fields=_NO_BREAKER | {"retry_policy": _RETRIES | {"max_attempts": 2}}, spec={"timeout_ms": 2000}
    ),
    "held": _Endpoint("/held/{{input.word}}", fields=_NO_BREAKER, spec={"timeout_ms": 120_000}),
    "limited": _Endpoint(
        "/slow/100",
        jobs=({},) * 24,
        limit=Limit(max_in_flight=3),
        fields=_MANY_RETRIES | {"limits": {"max_in_flight": 3}},
    ),
    "paced": _Endpoint(
        "/ok",
        jobs=({},) * 40,
        limit=Limit(pace=StartRate(50, timedelta(seconds=1), burst=5)),
        fields=_MANY_RETRIES | {"limits": {"rate": {"count": 50, "per": "1s", "burst": 5}}},
    ),
    "window": _Endpoint(
        "/ok",
        jobs=({},) * 20,
        limit=Limit(pace=StartRate(15, timedelta(seconds=3))),
        fields=_MANY_RETRIES | {"limits": {"rate": {"count": 15, "per": "3s", "window": "sliding"}}},
    ),
    "keyed": _Endpoint(
        "/slow/100",
        jobs=tuple({"input": {"tenant": f"t{number % _KEYS}"}} for number in range(5 * _KEYS)),
        limit=Limit(per_key=_KEY_LIMIT),
        fields=_MANY_RETRIES | {"limits": {"per_key": {"key": "{{input.tenant}}", "max_in_flight": _KEY_LIMIT}}},
    ),
    # Jobs of low priority come first.
    "ordered": _Endpoint(
        "/slow/100",
        jobs=({"priority": _LOW},) * 24 + ({"priority": _HIGH},) * 24,
        limit=Limit(max_in_flight=2),
        fields=_MANY_RETRIES | {"limits": {"max_in_flight": 2}},
    ),
    # Its own settings give it a breaker of its own.
    "broken": _Endpoint(
        "/broken",
        jobs=({},) * 12,
        fields=_MANY_RETRIES | {"breaker": {"failure_ratio": 0.5, "min_results": 5, "window": "10s", "open_for": "2s"}},
    ),
}
_OTHER_WEIGHTS = {"kafka": 4, "redis": 4}


class VerifyEndpoints:
    """Names and definitions of one run."""

    def __init__(self, run: str) -> None:
        self.topic = self._prefix = f"verify-{run}"
        self.stream = f"verify:{run}"
        self.slow, self.hanging, self.held = (self._http(word) for word in ("slow", "hanging", "held"))
        self.steady = [self._http("ok"), f"{self._prefix}-kafka", f"{self._prefix}-redis"]
        """One endpoint per transport, for repeating jobs."""
        self.broken_path = f"/broken/{self._prefix}"
        """Path at the receiver that fails until its release."""
        self.limits = {self._http(word): each.limit for word, each in _HTTP.items() if each.limit is not None}
        self.secret_name = f"{self._prefix}-token"
        self.canary = f"canary-{secrets.token_urlsafe(24)}"
        """Value of the secret, which no row and no log may contain."""
        self._weights = {self._http(word): each.weight for word, each in _HTTP.items()}
        self._weights |= {f"{self._prefix}-{word}": weight for word, weight in _OTHER_WEIGHTS.items()}
        self.names = list(self._weights)

    def gate_path(self, gate: str) -> str:
        """Return the path at the receiver that holds the answers to a crowd."""
        return f"/held/{gate}/{self._prefix}"

    def choose(self, dice: random.Random) -> str:
        """Choose the endpoint of a one-shot job."""
        return dice.choices(self.names, list(self._weights.values()))[0]

    def wave(self, number: int) -> list[dict[str, Any]]:
        """Return the jobs of a wave."""
        return [
            job | {"endpoint": self._http(word), "idempotency_key": f"{self._http(word)}-{number}-{place}"}
            for word, each in _HTTP.items()
            for place, job in enumerate(each.jobs)
        ]

    def register(self, api: Api, targets: LocalTargets) -> None:
        """Register everything through the API."""
        api.post("/secrets", {"name": self.secret_name, "value": self.canary})
        register(api, self._definitions(targets))

    def remove(self, api: Api) -> None:
        """Delete the definitions; the history of their jobs stays readable."""
        for name in self.names:
            api.delete(f"/endpoints/{name}")
        api.delete(f"/secrets/{self.secret_name}")

    def _http(self, word: str) -> str:
        return f"{self._prefix}-http-{word}"

    def _definitions(self, targets: LocalTargets) -> Iterator[Definition]:
        policy: Fields = {"retry_policy": _RETRIES}
        for word, each in _HTTP.items():
            headers = {"headers": {"X-Token": f"{{{{secret.{self.secret_name}}}}}"}} if word == "secret" else {}
            spec = {
                "url": targets.receiver.url(f"{each.path}/{self._prefix}"),
                "method": "POST",
                "body_template": _BODY,
            }
            fields = policy | each.fields
            yield endpoint(EndpointType.HTTP, self._http(word), spec | _TIMEOUT | each.spec | headers, **fields)
        topic = {"bootstrap_servers": targets.kafka.bootstrap, "topic": self.topic, "acks": "all"}
        record = {"key_template": "{{input.key}}", "value_template": _BODY}
        yield endpoint(EndpointType.KAFKA, f"{self._prefix}-kafka", topic | record | _TIMEOUT, **policy)
        stream = {"redis_url": targets.valkey.url, "stream": self.stream, "fields_template": _BODY}
        yield endpoint(EndpointType.REDIS_STREAM, f"{self._prefix}-redis", stream | _TIMEOUT, **policy)
