"""Delivery that arrived at the receiver of tests, and its answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Of the connection to the receiver; an application that gets the request over another way has its own.
_OF_CONNECTION = {"connection", "content-length", "host", "transfer-encoding"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a delivery.

    Attributes:
        status: HTTP status.
        body: Body.
        headers: Further headers, such as `Retry-After`.

    Example:
        deliveries.handle("/mail", lambda delivery: Answer(429, headers={"Retry-After": "60"}))
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] | None = None

    @classmethod
    def of(cls, value: Any) -> "Answer":
        """Return the answer that the value of a handler stands for.

        Args:
            value: An Answer, a status, None for 200, or a response of a framework with `status_code`.

        Returns:
            The answer.

        Raises:
            TypeError: The value is of another type.
        """
        if value is None or isinstance(value, int):
            return cls(200 if value is None else value)
        if isinstance(value, Answer):
            return value
        if isinstance(status := getattr(value, "status_code", None), int):
            body = getattr(value, "content", b"")  # of Django, httpx and requests
            return cls(status, body if isinstance(body, bytes) else b"", _retry_after(value.headers))
        raise TypeError(f"a handler returns None, a status, an Answer or a response, not {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Delivery:
    """Request that the service sent to the receiver.

    Attributes:
        method: HTTP method.
        path: Path and query as sent.
        headers: Headers with their names in lower case, without those of the connection.
        body: Body.

    Example:
        assert deliveries[0].json() == {"user": "ada"}
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "Delivery":
        """Return the delivery of a request, without the headers of its connection."""
        kept = {name.lower(): value for name, value in headers.items() if name.lower() not in _OF_CONNECTION}
        return cls(method, path, kept, body)

    @property
    def execution_id(self) -> str:
        """Id of the execution, the same in each attempt."""
        return self.headers["x-task-executor-execution-id"]

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 1."""
        return int(self.headers["x-task-executor-attempt"])

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ValueError: The body is not JSON.
        """
        return json.loads(self.body)


def _retry_after(headers: Any) -> Mapping[str, str] | None:
    value = headers.get("Retry-After")
    return None if value is None else {"Retry-After": str(value)}
