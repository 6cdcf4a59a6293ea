"""HTTP deliveries: the request of a spec, and what its answer means."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.http1.client import Client
from actors.dispatch.http1.request import Origin, head, read_url
from actors.dispatch.http_outcome import failure, judge
from actors.dispatch.progress import bounded
from actors.dispatch.signing import signed
from app.executions.model import DeliveryError
from app.formats import compact_json
from app.version import version

USER_AGENT = f"task-executor/{version()}"

_Fields = dict[str, tuple[str, str]]  # by the name in lower case: the name as it is written, and the value


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of HTTP."""
    return HttpDispatcher(network)


class HttpDispatcher:
    """Sends HTTP requests; `send` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send one request and judge the answer; `timeout_ms` bounds everything from connecting to the last byte."""
        request = _compose(spec, identity)
        async with self._network.turn(spec["timeout_ms"], request.origin.host, request.origin.port):
            return await self._send(spec, identity, request)

    async def _send(self, spec: Mapping[str, Any], identity: Identity, request: "_Request") -> dict[str, Any]:
        async with bounded(spec["timeout_ms"], identity, failure) as progress:
            answer = await self._client.exchange(request.origin, request.content, progress.begin_sending)
        return judge(answer.status, answer.retry_after, answer.text, spec["expected_status_codes"])

    async def sweep(self) -> None:
        """Do nothing: the client closes idle connections by itself."""

    async def close(self) -> None:
        """Close every connection."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class _Request:
    origin: Origin
    content: bytes
    """What is sent: head and body."""


def _compose(spec: Mapping[str, Any], identity: Identity) -> _Request:
    fields: _Fields = {name.lower(): (name, value) for name, value in spec["headers"].items()}
    body = _encode(spec.get("body_template"), fields)
    try:
        url = read_url(spec["url"])
        if url.authorization is not None:
            _default(fields, "Authorization", url.authorization)
        _default(fields, "Accept", "*/*")
        _default(fields, "User-Agent", USER_AGENT)
        fields |= _own(identity, spec, body)
        return _Request(url.origin, head(spec["method"], url, fields.values()) + (body or b""))
    except ValueError as error:
        raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None


def _own(identity: Identity, spec: Mapping[str, Any], body: bytes | None) -> _Fields:
    """Return the fields that no endpoint overrides."""
    own = {
        "Idempotency-Key": identity.idempotency_key,
        "X-Task-Executor-Job-Id": identity.job_id,
        "X-Task-Executor-Execution-Id": identity.execution_id,
        "X-Task-Executor-Attempt": str(identity.attempt),
        "X-Task-Executor-Scheduled-At": identity.scheduled_at_text,
        "traceparent": identity.traceparent,
    }
    if "signing" in spec:
        own |= signed(spec["signing"], identity.idempotency_key, int(time.time()), body or b"")
    if body is not None or spec["method"] != "GET":
        own["Content-Length"] = str(len(body or b""))
    return {name.lower(): (name, value) for name, value in own.items()}


def _default(fields: _Fields, name: str, value: str) -> str:
    return fields.setdefault(name.lower(), (name, value))[1]


def _encode(body: Any, fields: _Fields) -> bytes | None:
    """Encode the body as JSON, or as it is when it is a text and the endpoint names another content type."""
    if body is None:
        return None
    content_type = _default(fields, "Content-Type", "application/json")
    if isinstance(body, str) and "json" not in content_type.lower():
        return body.encode(errors="replace")
    return compact_json(body).encode(errors="replace")
