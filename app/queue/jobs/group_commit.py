"""Group commit: one thread writes for all threads that write concurrently.

The first thread writes its item at once. Threads that arrive during the write wait for its end; then one of them, the
leader, writes the items of all. No thread waits to fill a group, and groups grow with the load.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from app.kernel.db import deadline
from app.kernel.db.retries import explained

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)

MAX_GROUP = 32


class _Entry(Generic[T, R]):
    """Item of a thread that waits in the queue of a group."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.result: R | None = None
        self.leads = False
        self.is_done = False
        self.call = threading.Lock()  # released by the thread that calls this one
        self.call.acquire()


class GroupCommit(Generic[T, R]):
    """Writer of many threads' items; `write` returns a result for each item, or None for an item not written."""

    def __init__(self, write: Callable[[Sequence[T]], Sequence[R | None]]) -> None:
        self._write = write
        self._lock = threading.Lock()
        # Groups with a write in progress, and their waiting threads.
        self._waiting: dict[Hashable, list[_Entry[T, R]]] = {}

    def write(self, group: Hashable, item: T) -> R | None:
        """Write an item, possibly with other items of its group, and return its result.

        Returns None if the item was not written, or if a write of several items failed, since one bad item fails all.
        The caller then writes its item alone and gets its own error. Raises TimedOutError once this thread's deadline
        has passed, and the errors of `write` for a single item.
        """
        with self._lock:
            queue = self._waiting.get(group)
            if queue is None:
                self._waiting[group] = []
            else:
                entry = _Entry[T, R](item)
                queue.append(entry)
        if queue is None:
            try:
                return self._write([item])[0]
            finally:
                self._call_next_leader(group)
        self._wait(queue, entry)
        if not entry.is_done:
            self._lead(group, entry)
        return entry.result

    def _wait(self, queue: list[_Entry[T, R]], entry: _Entry[T, R]) -> None:
        """Return once the item is written, or this thread is the leader; raises TimedOutError."""
        left = deadline.current.at - time.monotonic()
        # One millisecond longer, so that the deadline has passed for certain.
        if entry.call.acquire(timeout=-1 if left == math.inf else max(0.0, left) + 0.001):
            return
        with self._lock:
            if entry in queue:
                queue.remove(entry)
            # A thread made leader at the last moment has to lead: other threads wait for it.
            leads = entry.leads
        if not leads:
            deadline.check()

    def _lead(self, group: Hashable, own: _Entry[T, R]) -> None:
        """Write the waiting items, then call their threads and the next leader."""
        with self._lock:
            queue = self._waiting[group]
            together = [own, *queue[: MAX_GROUP - 1]]
            del queue[: MAX_GROUP - 1]
        try:
            results = self._write([entry.item for entry in together])
            for entry, result in zip(together, results, strict=True):
                entry.result = result
        except Exception as error:
            if len(together) == 1:
                raise
            log.info("could not write %d items together: %s; writing each alone", len(together), explained(error))
        finally:
            for entry in together[1:]:
                entry.is_done = True
                entry.call.release()
            self._call_next_leader(group)

    def _call_next_leader(self, group: Hashable) -> None:
        """Call the next leader of a group; remove the group if no thread waits."""
        with self._lock:
            queue = self._waiting[group]
            if not queue:
                del self._waiting[group]
                return
            leader = queue.pop(0)
            leader.leads = True
        leader.call.release()
