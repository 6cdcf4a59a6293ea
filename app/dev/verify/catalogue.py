"""Catalogue of a run: endpoints to recording receivers, all named after the run, removed again at the end."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.dev.stack.client import Api
from app.dev.stack.definitions import Definition, http, kafka, redis_stream, register
from app.dev.stack.targets import Targets

_RETRIES = {"max_attempts": 20, "backoff": "fixed", "initial_delay_ms": 200, "max_delay_ms": 1000}
_TIMEOUT = {"timeout_ms": 5000}
_BODY = {"key": "{{input.key}}"}
# How the receiver behaves, and how often such an endpoint is chosen.
_HTTP = {"ok": ("/ok", 8), "slow": ("/slow/150", 2), "flaky": ("/flaky/1", 1), "lost": ("/lost/1", 1)}
_KAFKA_WEIGHT = _REDIS_WEIGHT = 4


@dataclass(frozen=True, slots=True)
class Target:
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
            *(Target(f"{self._prefix}-http-{name}", weight) for name, (_path, weight) in _HTTP.items()),
            Target(f"{self._prefix}-kafka", _KAFKA_WEIGHT),
            Target(f"{self._prefix}-redis", _REDIS_WEIGHT),
        ]

    @property
    def names(self) -> list[str]:
        """The names of the endpoints."""
        return [target.name for target in self.targets]

    @property
    def steady(self) -> list[str]:
        """One endpoint of each transport, for the jobs that repeat."""
        return [f"{self._prefix}-http-ok", f"{self._prefix}-kafka", f"{self._prefix}-redis"]

    def register(self, api: Api, targets: Targets) -> None:
        """Register everything through the API."""
        register(api, self._definitions(targets))

    def remove(self, api: Api) -> None:
        """Delete the endpoints; the history of their jobs stays readable, as that of any deleted endpoint."""
        for name in self.names:
            api.delete(f"/endpoints/{name}")

    def _definitions(self, targets: Targets) -> Iterator[Definition]:
        for name, (path, _weight) in _HTTP.items():
            url = f"{targets.receiver.base_url}{path}/{self._prefix}"
            yield http(f"{self._prefix}-http-{name}", url, _BODY, spec=_TIMEOUT, retry_policy=_RETRIES)
        topic = {"bootstrap_servers": targets.kafka.bootstrap, "topic": self.topic, "key_template": "{{input.key}}"}
        yield kafka(f"{self._prefix}-kafka", topic | {"value_template": _BODY} | _TIMEOUT, retry_policy=_RETRIES)
        stream = {"redis_url": targets.valkey.url, "stream": self.stream, "fields_template": _BODY}
        yield redis_stream(f"{self._prefix}-redis", stream | _TIMEOUT, retry_policy=_RETRIES)
