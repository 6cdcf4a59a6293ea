"""Client of the receiver: reads its counts and times from the measuring process."""

import http.client
import json
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Self

from app.dev.process.child import ChildError
from app.dev.stack.stack_processes import Processes

HOSTS = 21
"""Number of hosts of the receiver beside the first."""

_POLL_SECONDS = 0.01
_KEYS_POLL_SECONDS = 0.25


class Arrivals:
    """Runs the receiver as a process; a context manager."""

    def __init__(self, processes: Processes) -> None:
        self._child = processes.launch("receiver", ("benchmarks.receiver", str(HOSTS)))
        processes.wait_for_line(self._child, "listens on")
        self._ports = self._child.tail(1).split()[-1 - HOSTS :]
        self._connection = http.client.HTTPConnection("127.0.0.1", int(self._ports[0]), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._connection.close()
        self._child.stop(5)

    @property
    def url(self) -> str:
        """Return the URL for deliveries that are answered at once."""
        return self.url_of("/deliver")

    def held_url(self, seconds: float, name: str = "") -> str:
        """Return a URL whose answers come `seconds` later; a name gives the URL its own path."""
        return self.url_of(f"/hold/{seconds:g}" + (f"/{name}" if name else ""))

    def url_of(self, path: str, host: int = 0) -> str:
        """Return the URL of a path, whose requests are counted separately; paths below /hang get no answer."""
        return f"http://127.0.0.1:{self._ports[host]}{path}"

    @property
    def pid(self) -> int:
        return self._child.pid

    def counts(self) -> dict[str, int]:
        """Return the numbers of arrived keys, of repeated requests, and of requests that wait for their answer."""
        answer: dict[str, int] = self._ask("/_counts")
        return answer

    def times(self) -> dict[str, float]:
        """Return the first arrival of each key, as Unix time."""
        answer: dict[str, float] = self._ask("/_times")
        return answer

    def times_of(self, path: str) -> list[float]:
        """Return the arrival times of requests to a path, as Unix times in order."""
        answer: list[float] = self._ask(f"/_arrivals{path}")
        return answer

    def wait_for_paths(self, paths: Collection[str], timeout: float = 60.0) -> None:
        """Wait until a request has arrived at each path."""
        deadline = time.monotonic() + timeout
        while missing := [path for path in paths if not self.times_of(path)]:
            if time.monotonic() > deadline:
                raise ChildError(f"no request has arrived at {', '.join(missing)} within {timeout:.0f} s")
            time.sleep(_POLL_SECONDS)

    def most_open(self) -> dict[str, int]:
        """Return by path the most requests that were open at once, for paths with delayed answers."""
        answer: dict[str, dict[str, int]] = self._ask("/_open")
        return {path: counts["most"] for path, counts in answer.items()}

    def clear(self) -> None:
        """Delete all records."""
        self._ask("/_clear")

    def wait_for(self, count: int, *, timeout: float = 120.0, check: Callable[[], object] = bool) -> int:
        """Wait until `count` keys have arrived and return their number; `check` runs in between and may raise."""
        deadline = time.monotonic() + timeout
        while (arrived := self.counts()["arrived"]) < count:
            check()
            if time.monotonic() > deadline:
                raise ChildError(f"{arrived} of {count} arrived within {timeout:.0f} s")
            time.sleep(_POLL_SECONDS)
        return arrived

    def wait_for_keys(self, keys: Collection[str], timeout: float = 60.0) -> None:
        """Wait until these keys have arrived."""
        deadline = time.monotonic() + timeout
        while missing := set(keys) - self.times().keys():
            if time.monotonic() > deadline:
                raise ChildError(f"{len(missing)} of {len(keys)} have not arrived within {timeout:.0f} s")
            time.sleep(_KEYS_POLL_SECONDS)

    def _ask(self, path: str) -> Any:
        self._connection.request("GET", path)
        return json.loads(self._connection.getresponse().read())
