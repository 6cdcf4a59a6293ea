"""Resolver: looks up host names on threads of its own.

The event loop's pool has only a few threads, which a few targets with dead name servers would occupy. And the threads
of the standard library's pools are waited for at the end of the process, however long a lookup hangs.
"""

import asyncio
import queue
import socket
import threading
from concurrent.futures import Future

from actors.dispatch.egress import AddressInfo

_THREADS = 32

_Lookup = tuple[str, int, int]  # host, port, family


class Resolver:
    """Looks names up with the system's resolver."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[list[AddressInfo]], _Lookup] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        """Return the addresses of a host, at least one; raises OSError."""
        answer = Future[list[AddressInfo]]()
        self._waiting.put((answer, (host, port, family)))
        if not self._idle.acquire(blocking=False) and self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name=f"te-resolver-{self._threads}", daemon=True).start()
        try:
            return await asyncio.wrap_future(answer)
        except UnicodeError:
            raise OSError("it is not a valid host name") from None

    def stop(self) -> None:
        """Let the threads end; one whose lookup hangs is not waited for, neither here nor when the process ends."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            answer, (host, port, family) = item
            if answer.set_running_or_notify_cancel():
                try:
                    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
                    answer.set_result(list(found))
                except Exception as error:  # noqa: BLE001 - it belongs to the lookup
                    answer.set_exception(error)
            self._idle.release()
