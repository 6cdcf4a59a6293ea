"""Rate limits: counted in fixed windows, in this process or, for all processes together, in Redis.

A fixed window allows an exact Retry-After: a client that waits that long is served. In return, the end of one window
and the start of the next may together admit twice the limit.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import limits
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage

from app.kernel.errors import RateLimitedError

log = logging.getLogger(__name__)

REDIS_TIMEOUT_SECONDS = 0.25
PAUSE_SECONDS = 5.0


class Allowance(NamedTuple):
    """State of a limit after a request was counted; `remaining` is negative if the limit is exceeded."""

    limit: int
    window_seconds: int
    remaining: int
    reset_seconds: int

    def headers(self) -> dict[str, str]:
        """Return the headers of draft-ietf-httpapi-ratelimit-headers-06, the last draft with one header per number."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(0, self.remaining)),
            "RateLimit-Reset": str(self.reset_seconds),
            "RateLimit-Policy": f"{self.limit};w={self.window_seconds}",
        }


class CounterStorage:
    """Counters of the rate limits; while they are unreachable, requests are not limited, so the service continues."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.pause_seconds = PAUSE_SECONDS
        self._away_until: float | None = None
        self._lock = threading.Lock()

    @classmethod
    def at(cls, redis_url: str) -> "CounterStorage":
        """Count in the Redis at a URL, or in this process if the URL is empty; does not connect yet."""
        if not redis_url:
            return cls(MemoryStorage())
        # These take 0.1 s to import, and most processes need none.
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        return cls(
            RedisStorage(
                redis_url,
                wrap_exceptions=True,
                key_prefix="te:rate-limit",
                socket_timeout=REDIS_TIMEOUT_SECONDS,
                socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
                # One immediate retry for a dead pooled connection; redis-py's default retries for seconds.
                retry=Retry(NoBackoff(), 1),  # type: ignore[arg-type]
            )
        )

    def increment(self, key: str, window_seconds: int) -> tuple[int, float] | None:
        """Increment a counter; returns the count and the end of the window, or None if the storage is unreachable."""
        with self._trying() as may_try:
            return (self._storage.incr(key, window_seconds), self._storage.get_expiry(key)) if may_try else None

    def get(self, key: str) -> int | None:
        """Return the count of a key; None if the storage is unreachable."""
        with self._trying() as may_try:
            return self._storage.get(key) if may_try else None

    @contextmanager
    def _trying(self) -> Iterator[bool]:
        """Yield whether to query the storage; if the storage is unreachable, suppresses the error."""
        may_try = self._may_try()
        try:
            yield may_try
        except StorageError as error:
            self._note_away(error)
        else:
            if may_try and self._away_until is not None:
                self._away_until = None
                log.warning("rate-limit storage is reachable again; limiting requests")

    def _may_try(self) -> bool:
        """Return whether to query the storage; while it is unreachable, one request per `pause_seconds` tries."""
        if self._away_until is None:
            return True
        with self._lock:
            if self._away_until is not None and time.monotonic() < self._away_until:
                return False
            self._away_until = time.monotonic() + self.pause_seconds
            return True

    def _note_away(self, error: StorageError) -> None:
        with self._lock:
            was_there, self._away_until = self._away_until is None, time.monotonic() + self.pause_seconds
        if was_there:
            # Without the message, which may contain the URL with its password.
            kind = type(error.storage_error).__name__
            log.warning("rate-limit storage is unreachable: %s; not limiting requests until it returns", kind)


class RateLimit:
    """One limit, such as 600/minute, applied to each client."""

    def __init__(self, name: str, rate: str, counters: CounterStorage) -> None:
        self._name = name
        self._item = limits.parse(rate)
        self._counters = counters

    def count(self, who: str) -> Allowance | None:
        """Count a request; returns None if the storage is unreachable."""
        window = self._item.get_expiry()
        found = self._counters.increment(self._item.key_for(self._name, who), window)
        if found is None:
            return None
        # Rounded up, since Redis returns the rest of a window in rounded seconds.
        used, left = found[0], math.ceil(found[1] - time.time() + 0.5)
        return Allowance(self._item.amount, window, self._item.amount - used, max(1, min(left, window)))

    def is_used_up(self, who: str) -> bool:
        """Return whether the next request would exceed the limit; does not count a request."""
        used = self._counters.get(self._item.key_for(self._name, who))
        return used is not None and used >= self._item.amount


def refuse_excess(allowance: Allowance | None) -> None:
    if allowance is not None and allowance.remaining < 0:
        rate = f"{allowance.limit} in {allowance.window_seconds} s"
        raise RateLimitedError(f"Too many requests: more than {rate}.", retry_after_seconds=allowance.reset_seconds)
