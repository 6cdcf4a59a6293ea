"""Balance of connections between the worker processes of a server, which all accept from one socket."""

import contextlib
import mmap
import select
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

MAX_WORKERS = 512  # more than a reload with the largest TE_WEB_WORKERS starts
LEAVE_SECONDS = 0.001
_ABSENT = 2**63 - 1
_BUSY = 2**32


class Loads:
    """Load of each worker process, in memory that the master shares with all workers.

    A load is the number of requests, then the number of connections. Each worker writes its own load; other workers
    read it without a lock, because it is only a hint.
    """

    def __init__(self) -> None:
        self._loads = memoryview(mmap.mmap(-1, 8 * MAX_WORKERS)).cast("q")
        self._free = set(range(MAX_WORKERS))  # used by the master only
        for place in self._free:
            self._loads[place] = _ABSENT

    def join(self) -> int:
        """Return a place for the load of a new worker; further workers share the first place."""
        place = min(self._free, default=0)
        self._free.discard(place)
        return place

    def leave(self, place: int) -> None:
        """Free the place of a worker that has ended."""
        self._loads[place] = _ABSENT
        self._free.add(place)

    def report(self, place: int, load: tuple[int, int] | None) -> None:
        """Report a worker's load; None if it accepts no connections."""
        self._loads[place] = _ABSENT if load is None else load[0] * _BUSY + load[1]

    def least(self) -> tuple[int, int]:
        return divmod(min(self._loads), _BUSY)


_LOADS = Loads()


class BalancedWorker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """Worker that leaves new connections to a worker with a smaller load, for LEAVE_SECONDS at most.

    Otherwise clients that connect together often reach one worker, and kept connections stay there. A socket for each
    worker (SO_REUSEPORT) would lose connections that wait at a worker when it stops, and leave some to a frozen worker.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # in the master
        self.loads = _LOADS
        self.place = self.loads.join()
        self._rests_until = 0.0
        self._has_rested = self._is_back = False

    def load(self) -> tuple[int, int]:
        """Return the requests that this worker serves or has queued, and the connections that may send a request."""
        return 0, self.nr_conns

    def accept(self, listener: Any) -> None:
        """Accept a connection, or rest; after the rest, accept it if no other worker has taken it."""
        busy, connections = self.loads.least()
        # An eighth more is balanced enough: many clients that connect together need not wait for many rests.
        if not self._is_back and self.load() > (busy, connections + connections // 8):
            self._rests_until, self._has_rested = time.monotonic() + LEAVE_SECONDS, True
            self.set_accept_enabled(False)
        else:
            super().accept(listener)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Watch the listening sockets or not; during a rest not."""
        super().set_accept_enabled(enabled and time.monotonic() >= self._rests_until)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Report the load, and wait for events or for the end of a rest."""
        accepts = self.alive and self.nr_conns < self.worker_connections
        self.loads.report(self.place, self.load() if accepts else None)
        if self._accepting:  # a connection that was left is seen in this wait, or never
            self._is_back, self._has_rested = self._has_rested, False
        rest = self._rests_until - time.monotonic()
        super().wait_for_and_dispatch_events(min(timeout, rest) if rest > 0 else timeout)

    def _cap_keepalive(self, deadline: float) -> None:
        """Accept the connections that wait, and close the listening sockets, when the worker stops.

        gunicorn leaves them open until the last request has ended: new clients would wait for an answer all that time,
        and get a reset instead of a refusal, after which a load balancer asks another process.
        """
        for listener in self.sockets:
            with contextlib.suppress(OSError):  # such as no free descriptor
                for _ in range(self.cfg.backlog):
                    if self.nr_conns >= self.worker_connections or not _has_connection(listener):
                        break
                    super().accept(listener)
            listener.close()
        super()._cap_keepalive(deadline)


def _has_connection(listener: Any) -> bool:
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    return bool(poller.poll(0))
