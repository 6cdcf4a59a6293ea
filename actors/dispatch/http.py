"""HTTP deliveries: one aiohttp session per worker process.

aiohttp is told to do nothing on its own: no redirects, cookies, decompression, proxies from the environment, and no
second try on a stale connection, because every send must be an attempt that is counted.
"""

import base64
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from actors.dispatch.base import MAX_BODY_BYTES, SCRUB_MARGIN_BYTES, Dispatcher, Identity, Network
from actors.dispatch.http_outcome import failure, judge
from actors.dispatch.progress import Progress, bounded
from actors.dispatch.signing import signed
from app.executions.model import DeliveryError
from app.formats import compact_json
from app.version import version

USER_AGENT = f"task-executor/{version()}"
KEEP_ALIVE_SECONDS = 4.0  # common servers close idle connections after 5: close them earlier
KEPT_BYTES = MAX_BODY_BYTES + SCRUB_MARGIN_BYTES
DRAINED_BYTES = 131_072  # reading a little more is cheaper than a new connection


_progress: ContextVar[Progress] = ContextVar("_progress")


class _Request(aiohttp.ClientRequest):
    """Asks for the last time whether to send, and notes that the receiver may see the request from now on."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        _progress.get().begin_sending()
        return await super().send(conn)


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of HTTP."""
    return HttpDispatcher(network)


class HttpDispatcher:
    """Sends HTTP requests; `send` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._session: aiohttp.ClientSession | None = None

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send one request and judge the answer; `timeout_ms` bounds everything from connecting to the last byte."""
        request = _compose(spec, identity)
        async with self._network.turn(request.url.raw_host, request.url.port):
            return await self._send(spec, identity, request)

    async def _send(self, spec: Mapping[str, Any], identity: Identity, request: "_Outgoing") -> dict[str, Any]:
        async with bounded(spec["timeout_ms"], identity, failure) as progress:
            _progress.set(progress)
            status, retry_after, body = await self._exchange(spec["method"], request)
        return judge(status, retry_after, body, spec["expected_status_codes"])

    async def sweep(self) -> None:
        """Do nothing: aiohttp closes idle connections by itself after KEEP_ALIVE_SECONDS."""

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, method: str, request: "_Outgoing") -> tuple[int, str | None, str]:
        session = self._session or self._open()
        async with session.request(
            method, request.url, headers=request.headers, data=request.body, allow_redirects=False
        ) as response:
            return response.status, response.headers.get("Retry-After"), await _read(response)

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._network.connections,
            limit_per_host=self._network.connections_per_host,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            resolver=self._network.resolver,
            socket_factory=self._network.guard.open_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers=["Accept-Encoding", "Content-Type"],
            request_class=_Request,
        )
        # aiohttp would silently send a GET, PUT or DELETE again when a kept connection turns out to be closed.
        self._session._retry_connection = False  # noqa: SLF001 - there is no public switch; a test watches this one
        return self._session


@dataclass(frozen=True, slots=True)
class _Outgoing:
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None


def _compose(spec: Mapping[str, Any], identity: Identity) -> _Outgoing:
    headers = CIMultiDict[str](spec["headers"])
    url = _target(spec["url"], headers)
    body = _encode(spec.get("body_template"), headers)
    headers.setdefault("User-Agent", USER_AGENT)
    headers.update(
        {
            "Idempotency-Key": identity.idempotency_key,
            "X-Task-Executor-Job-Id": identity.job_id,
            "X-Task-Executor-Execution-Id": identity.execution_id,
            "X-Task-Executor-Attempt": str(identity.attempt),
            "X-Task-Executor-Scheduled-At": identity.scheduled_at_text,
            "traceparent": identity.traceparent,
        }
    )
    if "signing" in spec:
        headers.update(signed(spec["signing"], identity.idempotency_key, int(time.time()), body or b""))
    return _Outgoing(url, headers, body)


def _target(text: str, headers: CIMultiDict[str]) -> URL:
    """Read the URL, and move its user and password into a header unless the endpoint gives its own."""
    try:
        # Already encoded: yarl would otherwise undo some of the percent-encoding.
        url = URL(text, encoded=True)
        if url.raw_user is not None or url.raw_password is not None:
            credentials = base64.b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()
            headers.setdefault("Authorization", f"Basic {credentials}")
            url = url.with_user(None)
    except ValueError:
        raise DeliveryError("CONNECTION_ERROR", "the URL is not valid", permanent=True) from None
    return url


def _encode(body: Any, headers: CIMultiDict[str]) -> bytes | None:
    """Encode the body as JSON, or as it is when it is a text and the endpoint names another content type."""
    if body is None:
        return None
    content_type = headers.setdefault("Content-Type", "application/json")
    if isinstance(body, str) and "json" not in content_type.lower():
        return body.encode(errors="replace")
    return compact_json(body).encode(errors="replace")


async def _read(response: aiohttp.ClientResponse) -> str:
    """Read the part of the body that is kept; a longer one is cut off by closing the connection."""
    kept, seen = bytearray(), 0
    async for chunk in response.content.iter_any():
        seen += len(chunk)
        kept += chunk[: KEPT_BYTES - len(kept)]
        if seen > DRAINED_BYTES:
            response.close()
            break
    # The database holds no NUL in JSON.
    return kept.decode(errors="replace").replace("\0", "")
