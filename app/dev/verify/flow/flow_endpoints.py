"""Endpoints of flow: limited, paced, with keys and priorities, and one that is broken for a while."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.dev.stack.stack_definitions import Definition, Fields, http
from app.dev.verify.flow.flow_evidence import Limit, StartRate

_OF_KEY, _KEYS = 2, 6
_BODY = {"key": "{{input.key}}"}
_SPEC = {"timeout_ms": 5000}
_RETRIES = {"max_attempts": 60, "backoff": "fixed", "initial_delay_ms": 200, "max_delay_ms": 1000}
_LOW, _HIGH = 10, 200


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """How its receiver behaves, what it is registered with, and what that promises."""

    path: str
    jobs: tuple[Fields, ...]
    """What the jobs of a wave have beyond the usual; in this order."""
    fields: Fields = field(default_factory=dict)
    limit: Limit | None = None


_ENDPOINTS = {
    "limited": _Endpoint("/slow/100", ({},) * 24, {"limits": {"max_in_flight": 3}}, Limit(max_in_flight=3)),
    "paced": _Endpoint(
        "/ok",
        ({},) * 40,
        {"limits": {"rate": {"count": 50, "per": "1s", "burst": 5}}},
        Limit(pace=StartRate(50, timedelta(seconds=1), burst=5)),
    ),
    "window": _Endpoint(
        "/ok",
        ({},) * 20,
        {"limits": {"rate": {"count": 15, "per": "3s", "window": "sliding"}}},
        Limit(pace=StartRate(15, timedelta(seconds=3))),
    ),
    "keyed": _Endpoint(
        "/slow/100",
        tuple({"input": {"tenant": f"t{number % _KEYS}"}} for number in range(5 * _KEYS)),
        {"limits": {"per_key": {"key": "{{input.tenant}}", "max_in_flight": _OF_KEY}}},
        Limit(per_key=_OF_KEY),
    ),
    # The low ones are there first.
    "ordered": _Endpoint(
        "/slow/100",
        ({"priority": _LOW},) * 24 + ({"priority": _HIGH},) * 24,
        {"limits": {"max_in_flight": 2}},
        Limit(max_in_flight=2),
    ),
    # Settings of its own make it the only endpoint of its breaker.
    "broken": _Endpoint(
        "/broken",
        ({},) * 12,
        {"breaker": {"failure_ratio": 0.5, "min_results": 5, "window": "10s", "open_for": "2s"}},
    ),
}


class FlowEndpoints:
    """The endpoints of one run; their names begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @property
    def names(self) -> list[str]:
        """The names of the endpoints."""
        return [self._name(word) for word in _ENDPOINTS]

    @property
    def limits(self) -> dict[str, Limit]:
        """What they promise, by their names."""
        return {self._name(word): each.limit for word, each in _ENDPOINTS.items() if each.limit is not None}

    @property
    def broken_path(self) -> str:
        """The path at the receiver that is broken until it is released."""
        return f"/broken/{self._prefix}"

    def definitions(self, base_url: str) -> Iterator[Definition]:
        """Yield what registers them."""
        for word, each in _ENDPOINTS.items():
            url = f"{base_url}{each.path}/{self._prefix}"
            yield http(self._name(word), url, _BODY, spec=_SPEC, retry_policy=_RETRIES, **each.fields)

    def wave(self, number: int) -> list[dict[str, Any]]:
        """Return the bodies of jobs that are created at once."""
        return [
            job | {"endpoint": self._name(word), "idempotency_key": key, "input": job.get("input", {}) | {"key": key}}
            for word, each in _ENDPOINTS.items()
            for place, job in enumerate(each.jobs)
            for key in [f"{self._name(word)}-{number}-{place}"]
        ]

    def _name(self, word: str) -> str:
        return f"{self._prefix}-{word}"
