"""Record of received requests."""

import base64
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.kernel.formats import numbered

DEFAULT_LIMIT = 100_000

Predicate = Callable[[list["Received"]], bool]


@dataclass(slots=True, eq=False)
class Received:
    """Received request; only `ended` and `status` are set later."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Case-insensitive."""
    body: bytes
    monotonic: float
    """Arrival of the head by the machine's monotonic clock, comparable between processes."""
    time: float
    """The same instant as a Unix time."""
    ended: float | None = None
    """End by the clock of `monotonic`: the answer was ready or the connection broke. None while open."""
    status: int | None = None
    """Status of the answer, once ready."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def idempotency_key(self) -> str:
        return self.headers.get("Idempotency-Key", "")

    def as_dict(self) -> dict[str, Any]:
        """Return the request for JSON, with a binary body in base64."""
        fields = {"method": self.method, "path": self.path, "query": dict(self.query), "headers": dict(self.headers)}
        try:
            body = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(self.body).decode()}
        return fields | body | {"monotonic": self.monotonic, "time": self.time, "ended": self.ended}


class Record:
    """Newest requests in order of arrival; thread-safe."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._requests: deque[Received] = deque(maxlen=limit)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._open: Counter[str] = Counter()
        self._most_open: Counter[str] = Counter()
        self._changed = threading.Condition()

    def add(self, received: Received) -> int:
        """Record a request; return its number among the requests with its path and idempotency key."""
        with self._changed:
            self._requests.append(received)
            self._seen[received.path, received.idempotency_key] += 1
            self._open[received.path] += 1
            self._most_open[received.path] = max(self._most_open[received.path], self._open[received.path])
            self._changed.notify_all()
            return self._seen[received.path, received.idempotency_key]

    def end(self, received: Received) -> None:
        """Record the end of a request."""
        with self._changed:
            received.ended = time.monotonic()
            self._open[received.path] -= 1
            self._changed.notify_all()

    def most_open(self, path: str) -> int:
        """Return the largest number of concurrent requests to exactly this path."""
        with self._changed:
            return self._most_open[path]

    def clear(self) -> None:
        """Clear the record; open requests stay counted as open."""
        with self._changed:
            self._requests.clear()
            self._seen.clear()
            self._most_open = +self._open

    def matching(self, path: str = "") -> list[Received]:
        """Return the requests whose path starts with `path`."""
        with self._changed:
            return self._matching(path)

    def wait_for(self, wanted: int | Predicate, timeout: float = 60.0, *, path: str = "") -> list[Received]:
        """Wait for a number of requests, or until a predicate holds for them, and return them.

        Only requests whose path starts with `path` count. Raises TimeoutError.
        """
        with self._changed:
            deadline = time.monotonic() + timeout
            while True:
                found = self._matching(path)
                if wanted(found) if callable(wanted) else len(found) >= wanted:
                    return found
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(_complaint(wanted, timeout, path, found))

    def _matching(self, path: str) -> list[Received]:
        return [received for received in self._requests if received.path.startswith(path)]


def _complaint(wanted: int | Predicate, timeout: float, path: str, found: list[Received]) -> str:
    expected = "the expected requests" if callable(wanted) else numbered(wanted, "request")
    got = ", ".join(f"{each.method} {each.path}" for each in found[-10:]) or "nothing"
    return f"{expected} to {path or 'any path'} did not arrive within {timeout:g} s; {len(found)} arrived: {got}"
