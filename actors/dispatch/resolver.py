"""Resolver: looks up host names on threads of its own.

The event loop's pool has few threads, which a few targets with dead name servers would occupy. The standard library
also joins the threads of its pools at the end of the process, however long a lookup hangs.
"""

import asyncio
import contextlib
import queue
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from ipaddress import ip_address

from cachetools import TLRUCache

from actors.dispatch.egress import AddressInfo
from app.kernel.function_types import Clock

THREADS = 64
THREADS_PER_ZONE = 8
SLOW_SECONDS = 1.0  # a failure that took longer is remembered for as long as it took
MAX_MEMORY_SECONDS = 30.0
MAX_REMEMBERED = 1_000

_Key = tuple[str, int]  # host, family
_Failure = tuple[OSError, float]  # error, and the seconds until it came


@dataclass(slots=True, eq=False)
class _Lookup:
    """A running or waiting lookup, and the number of its callers."""

    key: _Key
    answer: asyncio.Future[list[AddressInfo]]
    waiters: int = 0


@dataclass(slots=True)
class _Zone:
    """The lookups of one zone, whose name servers answer, or hang, for all of its names."""

    running: int = 0
    waiting: deque[_Lookup] = field(default_factory=deque)


class Resolver:
    """Looks names up with the system's resolver; belongs to one event loop.

    A hanging name holds one thread, however many deliveries wait for it. A zone holds THREADS_PER_ZONE threads at most,
    so that other zones are not blocked.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._todo: queue.SimpleQueue[_Lookup | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._lookups: dict[_Key, _Lookup] = {}
        self._zones: dict[str, _Zone] = {}
        self._failed: TLRUCache[_Key, _Failure] = TLRUCache(MAX_REMEMBERED, _expiry, timer=clock)

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        """Return the addresses of a host, at least one; raises OSError."""
        key = host.lower(), family
        failed = self._failed.get(key)
        if failed is not None:
            raise type(failed[0])(*failed[0].args)
        lookup = self._lookups.get(key) or self._begin(key)
        lookup.waiters += 1
        try:
            # Other deliveries may wait for it too, so the time limit of one delivery does not cancel it.
            found = await asyncio.shield(lookup.answer)
        finally:
            lookup.waiters -= 1
        return [(*info[:4], (info[4][0], port, *info[4][2:])) for info in found]

    def stop(self) -> None:
        """End the threads; hanging lookups are not waited for, neither here nor at the end of the process."""
        for _ in range(self._threads):
            self._todo.put(None)

    def _begin(self, key: _Key) -> _Lookup:
        lookup = self._lookups[key] = _Lookup(key, asyncio.get_running_loop().create_future())
        lookup.answer.add_done_callback(asyncio.Future.exception)  # retrieved, because all callers may have left
        zone = self._zones.setdefault(_zone_of(key[0]), _Zone())
        if zone.running < THREADS_PER_ZONE:
            self._run(zone, lookup)
        else:
            zone.waiting.append(lookup)
        return lookup

    def _run(self, zone: _Zone, lookup: _Lookup) -> None:
        zone.running += 1
        self._todo.put(lookup)
        if not self._idle.acquire(blocking=False) and self._threads < THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name=f"te-resolver-{self._threads}", daemon=True).start()

    def _ended(self, lookup: _Lookup, found: list[AddressInfo] | OSError, took: float) -> None:
        """Pass on the result of a lookup, and begin the next lookup of its zone."""
        del self._lookups[lookup.key]
        if isinstance(found, OSError):
            lookup.answer.set_exception(found)
            if took >= SLOW_SECONDS:
                self._failed[lookup.key] = found, took
        else:
            lookup.answer.set_result(found)
        name = _zone_of(lookup.key[0])
        zone = self._zones[name]
        zone.running -= 1
        while zone.waiting and zone.running < THREADS_PER_ZONE:
            following = zone.waiting.popleft()
            if following.waiters:
                self._run(zone, following)
            else:
                del self._lookups[following.key]
                following.answer.set_exception(OSError("no delivery waits for it"))
        if not zone.running:
            del self._zones[name]

    def _work(self) -> None:
        while (lookup := self._todo.get()) is not None:
            began = self._clock()
            found = _addresses(*lookup.key)
            # The loop may be closed at the end of the process.
            with contextlib.suppress(RuntimeError):
                loop = lookup.answer.get_loop()
                loop.call_soon_threadsafe(self._ended, lookup, found, self._clock() - began)
            self._idle.release()


def _addresses(host: str, family: int) -> list[AddressInfo] | OSError:
    try:
        return list(socket.getaddrinfo(host, 0, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))
    except OSError as error:
        return error
    except UnicodeError:
        return OSError("it is not a valid host name")
    except Exception as error:  # noqa: BLE001 - the error of one lookup
        return OSError(f"its lookup failed: {type(error).__name__}")


def _expiry(_key: _Key, failure: _Failure, now: float) -> float:
    return now + min(failure[1], MAX_MEMORY_SECONDS)


def _zone_of(host: str) -> str:
    """Return the last two labels of a name; an address is a zone of its own."""
    try:
        return str(ip_address(host))
    except ValueError:
        return ".".join(host.rstrip(".").split(".")[-2:])
