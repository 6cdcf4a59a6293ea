"""HTTP deliveries: the request of a spec, and the outcome of its answer."""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, NamedTuple

from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.connector import Origin
from actors.dispatch.http1.answer import AnswerError, AnswerReader
from actors.dispatch.http1.client import Client
from actors.dispatch.http1.request import MAX_KEPT_LENGTH, read_url, write_fields
from actors.dispatch.network import Network
from actors.dispatch.send_progress import Progress, bounded
from actors.dispatch.signing import signed
from app.catalog.retry_policy import MAX_RETRY_AFTER_MS
from app.kernel.formats import compact_json, rfc3339
from app.kernel.version import version
from app.queue.executions.execution_model import DeliveryError

USER_AGENT = f"task-executor/{version()}"
HEADERS_KEPT = 256
_REASONS = {status.value: status.phrase for status in HTTPStatus}

# Endpoints cannot override these headers.
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
# A 409 reports that another attempt is still at work; unlike the other two it indicates no fault of the host.
_WITH_RETRY_AFTER = frozenset({409, 429, 503})


class HttpDispatcher(Dispatcher):
    """Sends HTTP requests; `send` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._turns = network.turns
        self._client = Client(network)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send one request and judge the answer; `timeout_ms` bounds everything from connecting to the last byte."""
        origin, request = compose(spec, identity)
        timeout_ms, expected = spec["timeout_ms"], spec["expected_status_codes"]
        async with self._turns.take((origin.host, origin.port), timeout_ms, identity.permission):
            exchange = partial(self._client.exchange, origin, request)
            answer = await bounded(timeout_ms, identity, failure, exchange)
        status, output = answer.status, {"status_code": answer.status, "body": answer.text}
        if status in expected:
            return output
        name = f"{status} {_REASONS.get(status, '')}".rstrip()
        raise DeliveryError(
            "HTTP_ERROR",
            f"the endpoint answered {name}; expected: {', '.join(map(str, expected))}",
            permanent=status == HTTPStatus.GONE,
            retry_after_ms=retry_after_ms(answer) if status in _WITH_RETRY_AFTER else None,
            extra=output,
        )

    async def close(self) -> None:
        self._client.close()


class _Given(NamedTuple):
    """Header fields of an endpoint, usually the same for all of its requests."""

    fields: str
    takes_text: bool
    """True if a text as body is sent unchanged and not as JSON."""


def compose(spec: Mapping[str, Any], identity: Identity) -> tuple[Origin, bytes]:
    """Return the origin of a request, and its bytes; raises DeliveryError."""
    method, template, headers = spec["method"], spec.get("body_template"), spec["headers"]
    is_kept = len(spec["url"]) + sum(map(len, headers.values())) <= MAX_KEPT_LENGTH
    read, give = (read_url, _given) if is_kept else (read_url.__wrapped__, _given.__wrapped__)
    try:
        url = read(spec["url"])
        given = give(tuple(headers.items()), url.authorization, template is not None)
    except ValueError as error:
        raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None
    text = template if given.takes_text and isinstance(template, str) else compact_json(template)
    body = b"" if template is None else text.encode(errors="replace")
    fields = given.fields + _own(identity)
    if "signing" in spec:
        proofs = signed(spec["signing"], identity.execution_id, int(time.time()), body, identity.attempt)
        fields += write_fields(proofs.items())
    if template is not None or method != "GET":
        fields += f"Content-Length: {len(body)}\r\n"
    head = f"{method} {url.target} HTTP/1.1\r\nHost: {url.host_header}\r\n{fields}\r\n"
    return url.origin, head.encode(errors="ignore") + body


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


def retry_after_ms(answer: AnswerReader) -> int | None:
    """Return the wait that an answer asks for by Retry-After; None if it is missing or invalid."""
    if answer.retry_after is None:
        return None
    # The receiver made both dates, so its own clock decides: a wrong clock of this host must not lengthen the wait.
    date = "" if answer.date is None else answer.date.decode(errors="replace")
    now = _unix_time(date)
    return duration_of(answer.retry_after, time.time() if now is None else now)


def duration_of(retry_after: str, now: float) -> int | None:
    """Read a Retry-After header, seconds or a date, in milliseconds from `now`, a Unix time; None if it is invalid."""
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", retry_after):
        seconds = float(retry_after)
    else:
        until = _unix_time(retry_after)
        if until is None:
            return None
        seconds = until - now
    return min(round(seconds * 1000), MAX_RETRY_AFTER_MS) if seconds > 0 else None


def _unix_time(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()  # HTTP has GMT only
    except (ValueError, OverflowError):
        return None


def failure(error: Exception, progress: Progress) -> DeliveryError:
    """Return the error of a request without an answer."""
    if isinstance(error, TimeoutError):
        return progress.timed_out("no complete answer came")
    if isinstance(error, AnswerError):
        message = str(error)
    elif isinstance(error, OSError) and error.errno:
        message = f"the connection broke: {os.strerror(error.errno)}"
    else:
        # The text of an unforeseen exception may contain anything, even a secret: only its type is shown.
        message = f"the delivery failed: {type(error).__name__}"
    return DeliveryError("CONNECTION_ERROR", message, may_have_been_delivered=progress.is_sent)
