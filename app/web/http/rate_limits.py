"""Rate limits: counted in fixed windows, in this process or, for all processes together, in Redis.

A fixed window allows an exact Retry-After: whoever waits that long is served. The price is that the end of one window
and the start of the next may together admit twice the limit.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import limits
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.kernel.errors import RateLimitedError

log = logging.getLogger(__name__)

T = TypeVar("T")

REDIS_TIMEOUT_SECONDS = 0.25
PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rest of a limit after a request was counted; `remaining` is negative when it was one too many."""

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
    """The place of the counters. While it is unreachable nobody is limited: limits must not stop the service."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._away_until: float | None = None
        self._lock = threading.Lock()

    @classmethod
    def at(cls, redis_url: str) -> "CounterStorage":
        """Count in the Redis at that URL, or in this process when there is none; connects to nothing yet."""
        if not redis_url:
            return cls(MemoryStorage())
        return cls(
            RedisStorage(
                redis_url,
                wrap_exceptions=True,
                key_prefix="te:rate-limit",
                socket_timeout=REDIS_TIMEOUT_SECONDS,
                socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
                # Once more at once, since a pooled connection may have died; by default redis-py goes on for seconds.
                retry=Retry(NoBackoff(), 1),  # type: ignore[arg-type]
            )
        )

    def ask(self, question: Callable[[Storage], T]) -> T | None:
        """Query the storage; None while it is unreachable, when only one request every few seconds tries it."""
        if self._away_until is not None and not self._may_try():
            return None
        try:
            answer = question(self._storage)
        except StorageError as error:
            self._note_away(error)
            return None
        if self._away_until is not None:
            self._away_until = None
            log.info("the storage of the rate limits is back")
        return answer

    def _may_try(self) -> bool:
        with self._lock:
            if self._away_until is not None and time.monotonic() < self._away_until:
                return False
            self._away_until = time.monotonic() + PAUSE_SECONDS
            return True

    def _note_away(self, error: StorageError) -> None:
        with self._lock:
            was_there, self._away_until = self._away_until is None, time.monotonic() + PAUSE_SECONDS
        if was_there:
            # Not the message: it may hold the URL, and that a password.
            log.warning("the storage of the rate limits is away; requests are not limited (%s)", _kind(error))


class RateLimit:
    """One limit, such as 600/minute, for each of many callers."""

    def __init__(self, name: str, rate: str, counters: CounterStorage) -> None:
        self._name = name
        self._item = limits.parse(rate)
        self._counters = counters

    def count(self, who: str) -> Allowance | None:
        """Count a request; None while the storage is unreachable."""
        key, window = self._key(who), self._item.get_expiry()
        found = self._counters.ask(lambda storage: (storage.incr(key, window), storage.get_expiry(key)))
        return None if found is None else self._allowance(*found)

    def is_used_up(self, who: str) -> bool:
        """Return whether the next request is one too many; does not count one."""
        used = self._counters.ask(lambda storage: storage.get(self._key(who)))
        return used is not None and used >= self._item.amount

    def _key(self, who: str) -> str:
        return self._item.key_for(self._name, who)

    def _allowance(self, used: int, reset_at: float) -> Allowance:
        # Redis returns the rest of a window in rounded seconds; too late is better than too early.
        window, left = self._item.get_expiry(), math.ceil(reset_at - time.time() + 0.5)
        return Allowance(self._item.amount, window, self._item.amount - used, max(1, min(left, window)))


def too_many(allowance: Allowance) -> RateLimitedError:
    """Return the error for one request too many."""
    rate = f"{allowance.limit} in {allowance.window_seconds} s"
    return RateLimitedError(f"Too many requests: more than {rate}.", retry_after_seconds=allowance.reset_seconds)


def _kind(error: StorageError) -> str:
    return type(error.storage_error).__name__
