"""Endpoints of a run: to recording receivers, with names that begin with the run's, and deleted at its end."""

import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.stack_client import Api, Definition, Fields, endpoint, register
from app.dev.verify.ending.ending_rows import FailureRule
from app.dev.verify.evidence import Limit, StartRate
from schema.states import CallbackEvent, EndpointType, NotificationEvent

_BODY = {"key": "{{input.key}}"}
_TIMEOUT = {"timeout_ms": 5000}
_RETRIES = {"max_attempts": 20, "backoff": "fixed", "initial_delay_ms": 200, "max_delay_ms": 1000}
_MANY_RETRIES = {"retry_policy": _RETRIES | {"max_attempts": 60}}
# For endpoints that fail on purpose: they share the receiver's host with all other endpoints.
_NO_BREAKER = {"breaker": "off"}
# For endpoints whose jobs fail until they are redriven.
_FEW_RETRIES = _NO_BREAKER | {"retry_policy": _RETRIES | {"max_attempts": 2}}
_KEY_LIMIT, _KEYS = 2, 6
_LOW, _HIGH = 10, 200
_PACING = {"group_seconds": 4, "max_per_hour": 1000}  # of messages; a group that has to wait would delay the run's end


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
    callbacks: tuple[CallbackEvent, ...] = ()
    """Events that are reported to the endpoint `callbacks`."""


_HTTP = {
    "callbacks": _Endpoint("/ok", spec={"body_template": {"of": "{{input.execution_id}}"}}),
    "messages": _Endpoint("/ok", spec={"body_template": {"title": "{{input.title}}"}}),
    "ok": _Endpoint("/ok", 8),
    "slow": _Endpoint("/slow/150", 2),
    "flaky": _Endpoint(
        "/flaky/1", 1, fields=_NO_BREAKER, callbacks=(CallbackEvent.ON_SUCCESS, CallbackEvent.ON_ATTEMPT_FAILED)
    ),
    "lost": _Endpoint("/lost/1", 1, fields=_NO_BREAKER),
    # The receiver returns the request's headers, and the secret with them.
    "secret": _Endpoint("/echo", 2),
    "hanging": _Endpoint(
        "/hang", fields=_FEW_RETRIES, spec={"timeout_ms": 2000}, callbacks=(CallbackEvent.ON_FAILURE,)
    ),
    # Both fail twice. Then a redrive continues the first, and makes new jobs of another endpoint of the second.
    "retried": _Endpoint("/flaky/2", jobs=({},) * 6, fields=_FEW_RETRIES, callbacks=tuple(CallbackEvent)),
    "renewed": _Endpoint("/flaky/2", jobs=({},) * 6, fields=_FEW_RETRIES, callbacks=(CallbackEvent.ON_FAILURE,)),
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
        fields=_MANY_RETRIES | {"breaker": {"failure_ratio": 0.5, "min_results": 5, "window": "60s", "open_for": "2s"}},
    ),
}
# Its queue is paused and resumed.
_QUEUED = "queued"
_HTTP[_QUEUED] = _Endpoint("/ok", 2)
_OTHER_WEIGHTS = {"kafka": 4, "redis": 4}


class VerifyEndpoints:
    """Names and definitions of one run."""

    def __init__(self, run: str) -> None:
        self.topic = self._prefix = f"verify-{run}"
        self.stream = f"verify:{run}"
        self.slow, self.hanging, self.held, self.broken = map(self._http, ("slow", "hanging", "held", "broken"))
        self.steady = [self._http("ok"), f"{self._prefix}-kafka", f"{self._prefix}-redis"]
        """One endpoint per transport, for repeating jobs."""
        self.of_nodes = [*self.steady, *(self._http(word) for word in ("slow", "flaky", "lost"))]
        """Endpoints of nodes of workflows."""
        self.broken_path = f"/broken/{self._prefix}"
        """Path at the receiver that fails until its release."""
        self.queue, self.queued = f"{self._prefix}-queue", self._http(_QUEUED)
        """A queue that is paused and resumed, and its endpoint."""
        self.redriven = {self._http("retried"): None, self._http("renewed"): self._http("ok")}
        """Endpoints whose dead letters are redriven, each with the endpoint of the new jobs."""
        self.callbacks = {
            self._http(word): dict.fromkeys(each.callbacks, self._http("callbacks"))
            for word, each in _HTTP.items()
            if each.callbacks
        }
        """Endpoints of callbacks, by event, by endpoint."""
        self.limits = {self._http(word): each.limit for word, each in _HTTP.items() if each.limit is not None}
        self.secret_name = f"{self._prefix}-token"
        self.canary = f"canary-{secrets.token_urlsafe(24)}"
        """Value of the secret, which no row and no log may contain."""
        self._weights = {self._http(word): each.weight for word, each in _HTTP.items()}
        self._weights |= {f"{self._prefix}-{word}": weight for word, weight in _OTHER_WEIGHTS.items()}
        self.names = list(self._weights)
        channels, failing = (self._http("messages"),), frozenset(self._http(word) for word in _HTTP)
        self.rules = {f"{self._prefix}-failures": FailureRule(failing, channels)}
        """Notification rules by name."""

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
        for name, rule in self.rules.items():
            pattern = {"endpoint": self._http("*"), "events": [NotificationEvent.EXECUTION_FAILED]}
            api.post("/notification-rules", pattern | {"name": name, "channels": rule.channels} | _PACING)

    def remove(self, api: Api) -> None:
        """Delete the definitions; the history of their jobs stays readable."""
        for name in self.rules:
            api.delete(f"/notification-rules/{name}")
        # An endpoint that is the callback of another endpoint is deleted after it.
        for name in sorted(self.names, key=self._http("callbacks").__eq__):
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
            name, fields = self._http(word), policy | each.fields
            fields |= {"callbacks": self.callbacks[name]} if name in self.callbacks else {}
            fields |= {"queue": self.queue} if name == self.queued else {}
            yield endpoint(EndpointType.HTTP, name, spec | _TIMEOUT | each.spec | headers, **fields)
        topic = {"bootstrap_servers": targets.kafka.bootstrap, "topic": self.topic, "acks": "all"}
        record = {"key_template": "{{input.key}}", "value_template": _BODY}
        yield endpoint(EndpointType.KAFKA, f"{self._prefix}-kafka", topic | record | _TIMEOUT, **policy)
        stream = {"redis_url": targets.valkey.url, "stream": self.stream, "fields_template": _BODY}
        yield endpoint(EndpointType.REDIS_STREAM, f"{self._prefix}-redis", stream | _TIMEOUT, **policy)
