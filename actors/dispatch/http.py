"""HTTP deliveries: the request of a spec, and what its answer means."""

import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.connector import Origin
from actors.dispatch.http1.client import Client
from actors.dispatch.http1.request import LONGEST_KEPT, read_url, write_fields, write_head
from actors.dispatch.http_outcome import failure, judge
from actors.dispatch.send_progress import bounded
from actors.dispatch.signing import signed
from app.kernel.formats import compact_json, rfc3339
from app.kernel.version import version
from app.queue.executions.execution_model import DeliveryError

USER_AGENT = f"task-executor/{version()}"
HEADERS_KEPT = 256

# What no endpoint overrides.
_OWN = frozenset(
    {
        "idempotency-key",
        "x-task-executor-job-id",
        "x-task-executor-execution-id",
        "x-task-executor-attempt",
        "x-task-executor-attempt-signature",
        "x-task-executor-scheduled-at",
        "traceparent",
        "tracestate",
        "content-length",
    }
)


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
        origin, request = compose(spec, identity)
        timeout_ms = spec["timeout_ms"]
        async with self._network.turn(identity, timeout_ms, origin.host, origin.port):
            exchange = partial(self._client.exchange, origin, request)
            answer = await bounded(timeout_ms, identity, failure, exchange)
        return judge(answer.status, answer.retry_after, answer.text, spec["expected_status_codes"])

    async def sweep(self) -> None:
        """Do nothing: the client closes idle connections by itself."""

    async def close(self) -> None:
        """Close every connection."""
        self._client.close()


class _Given(NamedTuple):
    """What an endpoint gives of the head: the same for all of its requests, as a rule."""

    fields: str
    takes_text: bool
    """Whether a body that is a text goes out as it is, and not as JSON."""


def compose(spec: Mapping[str, Any], identity: Identity) -> tuple[Origin, bytes]:
    """Return the origin of a request, and its bytes; raises DeliveryError."""
    method, template, headers = spec["method"], spec.get("body_template"), spec["headers"]
    is_kept = len(spec["url"]) + sum(map(len, headers.values())) <= LONGEST_KEPT
    read, give = (read_url, _given) if is_kept else (read_url.__wrapped__, _given.__wrapped__)
    try:
        url = read(spec["url"])
        given = give(tuple(headers.items()), url.authorization, template is not None)
    except ValueError as error:
        raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None
    body = b"" if template is None else _encode(template, given)
    fields = given.fields + _own(identity)
    if "signing" in spec:
        proofs = signed(spec["signing"], identity.execution_id, int(time.time()), body, identity.attempt)
        fields += write_fields(proofs.items())
    if template is not None or method != "GET":
        fields += f"Content-Length: {len(body)}\r\n"
    return url.origin, write_head(method, url, fields) + body


@lru_cache(HEADERS_KEPT)
def _given(headers: tuple[tuple[str, str], ...], authorization: str | None, has_body: bool) -> _Given:
    fields = {name.lower(): (name, value) for name, value in headers if name.lower() not in _OWN}
    if has_body:
        fields.setdefault("content-type", ("Content-Type", "application/json"))
    if authorization is not None:
        fields.setdefault("authorization", ("Authorization", authorization))
    fields.setdefault("accept", ("Accept", "*/*"))
    fields.setdefault("user-agent", ("User-Agent", USER_AGENT))
    return _Given(write_fields(fields.values()), has_body and "json" not in fields["content-type"][1].lower())


def _own(identity: Identity) -> str:
    return (
        f"Idempotency-Key: {identity.execution_id}\r\n"
        f"X-Task-Executor-Job-Id: {identity.job_id}\r\n"
        f"X-Task-Executor-Execution-Id: {identity.execution_id}\r\n"
        f"X-Task-Executor-Attempt: {identity.attempt}\r\n"
        f"X-Task-Executor-Scheduled-At: {rfc3339(identity.scheduled_at, 'milliseconds')}\r\n"
        f"traceparent: {identity.traceparent}\r\n"
    ) + (f"tracestate: {identity.tracestate}\r\n" if identity.tracestate else "")


def _encode(body: Any, given: _Given) -> bytes:
    """Encode the body as JSON, or as it is when it is a text and the endpoint names another content type."""
    text = body if given.takes_text and isinstance(body, str) else compact_json(body)
    return text.encode(errors="replace")
