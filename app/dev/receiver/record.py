"""Record of the requests that the receiver got."""

import base64
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_LIMIT = 100_000

Predicate = Callable[[list["Received"]], bool]


@dataclass(slots=True, eq=False)
class Received:
    """One request; all but its end is known from the beginning."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes
    monotonic: float
    """When its head was there, on the machine's monotonic clock: comparable between processes."""
    time: float
    """The same instant as a Unix time."""
    ended: float | None = None
    """When its answer was ready or its connection had broken, on the clock of `monotonic`; None while it is open."""
    status: int | None = None
    """Of the answer, once it is ready."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def idempotency_key(self) -> str:
        return self.headers.get("Idempotency-Key", "")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; a body that isn't text as base64."""
        fields = {"method": self.method, "path": self.path, "query": dict(self.query), "headers": dict(self.headers)}
        try:
            body = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(self.body).decode()}
        return fields | body | {"monotonic": self.monotonic, "time": self.time, "ended": self.ended}


class Record:
    """The newest requests, in order of arrival; safe to use from any thread."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._requests: deque[Received] = deque(maxlen=limit)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._open: Counter[str] = Counter()
        self._most_open: Counter[str] = Counter()
        self._changed = threading.Condition()

    def add(self, received: Received) -> int:
        """Keep a request; return how many came with its path and idempotency key, this one included."""
        with self._changed:
            self._requests.append(received)
            self._seen[received.path, received.idempotency_key] += 1
            self._open[received.path] += 1
            self._most_open[received.path] = max(self._most_open[received.path], self._open[received.path])
            self._changed.notify_all()
            return self._seen[received.path, received.idempotency_key]

    def end(self, received: Received) -> None:
        """Note that a request is open no longer."""
        with self._changed:
            received.ended = time.monotonic()
            self._open[received.path] -= 1
            self._changed.notify_all()

    def most_open(self, path: str) -> int:
        """Return the most requests to exactly this path that were open at once."""
        with self._changed:
            return self._most_open[path]

    def clear(self) -> None:
        """Forget what came; what is open stays open."""
        with self._changed:
            self._requests.clear()
            self._seen.clear()
            self._most_open = +self._open

    def matching(self, path: str = "") -> list[Received]:
        """Return the requests whose path starts with `path`."""
        with self._changed:
            return self._matching(path)

    def wait_for(self, wanted: int | Predicate, timeout: float = 60.0, *, path: str = "") -> list[Received]:
        """Wait for that many requests, or until the predicate holds for them; return them.

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
    expected = "the expected requests" if callable(wanted) else f"{wanted} requests"
    got = ", ".join(f"{each.method} {each.path}" for each in found[-10:]) or "nothing"
    return f"{expected} to {path or 'any path'} did not come within {timeout:g} s; {len(found)} came: {got}"
