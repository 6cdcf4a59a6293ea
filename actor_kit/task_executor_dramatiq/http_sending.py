"""Sending by the HTTP API, and its other requests."""

import http.client
import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from dramatiq.errors import BrokerConnectionError

from task_executor_dramatiq.messages import Job
from task_executor_dramatiq.own_connection import OwnConnection, ThreadConnection
from task_executor_dramatiq.sending import (
    EndedError,
    MissingExecutionError,
    SendError,
    UnknownActorError,
    note_repetition,
)

TIMEOUT_SECONDS = 30.0
REPEATED = 200  # 201: created
REDIRECT, CLIENT_ERROR, SERVER_ERROR = 300, 400, 500
FOREIGN = "no answer of Task Executor: check the URL and proxies"


class HttpSender:
    """Sends by `POST /jobs`; a connection for each thread."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = urlsplit(url)
        if "@" in self._url.netloc:
            raise ValueError("url: give the API key as `key`, and no user or password in the URL")
        self._key = key
        self._own: OwnConnection = ThreadConnection()

    def send(self, job: Job) -> None:
        """Create a job, unless it exists; raises SendError, UnknownActorError or BrokerConnectionError."""
        status, text = self._exchange("POST", "/jobs", _body_of(job))
        self._answer(status, text, "job_id")
        if status == REPEATED:
            note_repetition(job)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, Any] | None = None,
        *,
        field: str,
        patience: float = 0.0,
    ) -> dict[str, Any]:
        """Send a request and return its answer; a request whose connection broke is sent once more.

        Raises BrokerConnectionError for an answer without `field`, because another server may answer with any object.
        """
        return self._answer(*self._exchange(method, path, body, query, patience), field)

    def _exchange(
        self, method: str, path: str, body: Any, query: dict[str, Any] | None = None, patience: float = 0.0
    ) -> tuple[int, bytes]:
        target = self._url.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        content = None if body is None else json.dumps(body).encode()
        for is_last in (False, True):
            connection = self._connection(TIMEOUT_SECONDS + patience)
            try:
                connection.request(method, target, content, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if is_last:
                    raise BrokerConnectionError(f"{self._url.netloc} does not answer: {error}") from error
            else:
                return answer.status, text
        raise AssertionError

    def close(self) -> None:
        self._own.close()

    def _answer(self, status: int, text: bytes, field: str) -> dict[str, Any]:
        """Return an answer that has the field; raises SendError for a refusal, else BrokerConnectionError."""
        host = self._url.netloc  # has no password, see __init__
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        found: dict[str, Any] = answer if isinstance(answer, dict) else {}
        error = found["error"] if isinstance(found.get("error"), dict) else {}
        if status >= SERVER_ERROR:
            raise BrokerConnectionError(f"{host} answered {status}: {error.get('message', '')}")
        if status >= CLIENT_ERROR:
            raise _refusal(error.get("code") or f"{host} answered {status}", error.get("message") or FOREIGN)
        if status >= REDIRECT or field not in found:  # a proxy that redirects has not sent the message
            raise BrokerConnectionError(f"{host} answered {status}: {FOREIGN}")
        return found

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = self._own.get()
        if connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            connection = self._own.set(kind(self._url.netloc, timeout=timeout))
        return connection


def _body_of(job: Job) -> dict[str, Any]:
    body: dict[str, Any] = {"endpoint": job.endpoint, "input": job.input, "idempotency_key": job.key, "name": job.key}
    if job.priority is not None:
        body["priority"] = job.priority
    if job.delay_ms is None:
        return body | {"trigger": "IMMEDIATE"}
    return body | {"trigger": "DELAYED", "delay": f"{job.delay_ms}ms"}


_KINDS = {
    "ENDPOINT_NOT_FOUND": UnknownActorError,
    "EXECUTION_NOT_CANCELLABLE": EndedError,
    "EXECUTION_NOT_FOUND": MissingExecutionError,
}


def _refusal(code: Any, message: Any) -> SendError:
    kind = _KINDS.get(code, SendError)
    return kind(f"{code}: {message}")
