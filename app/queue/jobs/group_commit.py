"""Group commit: of the threads that write at the same moment, one writes for all.

The first writes at once, and alone. Those who come meanwhile wait until it is done; then one of them writes what all of
them wait for, and so on. So nobody waits to fill a group, and the busier the process, the larger the groups.
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

MOST_TOGETHER = 32


class _Place(Generic[T, R]):
    """The place of one thread in the queue of a group."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.result: R | None = None
        self.leads = False
        self.is_done = False
        self._called = threading.Lock()
        self._called.acquire()

    def call(self) -> None:
        """Let the thread go on."""
        self._called.release()

    def is_called(self) -> bool:
        """Wait until the thread is called; False when its deadline passed before that."""
        left = deadline.current.at - time.monotonic()
        # A little longer, so that the deadline has certainly passed then.
        return self._called.acquire(timeout=-1 if left == math.inf else max(0.0, left) + 0.001)


class GroupCommit(Generic[T, R]):
    """Writes items of many threads by `write`, which returns a result for each, or None for one that is not written."""

    def __init__(self, write: Callable[[Sequence[T]], Sequence[R | None]]) -> None:
        self._write = write
        self._lock = threading.Lock()
        # A group is here while one of its threads writes; the places are those of the threads that wait.
        self._waiting: dict[Hashable, list[_Place[T, R]]] = {}

    def write(self, group: Hashable, item: T) -> R | None:
        """Write an item, together with others of its group, and return its result.

        None when it is not written, and also when writing several together failed, as one bad item would make it:
        whoever gets None writes its own by itself, and so gets its own error. Raises TimedOutError once this thread's
        deadline has passed, and what `write` raises for a single item.
        """
        place = _Place[T, R](item)
        with self._lock:
            place.leads = group not in self._waiting
            queue = self._waiting.setdefault(group, [])
            if not place.leads:
                queue.append(place)
        if not place.leads:
            self._wait(queue, place)
        if not place.is_done:
            self._lead(group, place)
        return place.result

    def _wait(self, queue: list[_Place[T, R]], place: _Place[T, R]) -> None:
        """Return when the item is written, or this thread is to write; raises TimedOutError."""
        if place.is_called():
            return
        with self._lock:
            if place in queue:
                queue.remove(place)
            # Whoever was made the leader in this last moment has to be it: the others wait for him.
            has_to_lead = place.leads
        if not has_to_lead:
            deadline.check()

    def _lead(self, group: Hashable, own: _Place[T, R]) -> None:
        """Write what waits, then call those whose items that were, and the next leader."""
        with self._lock:
            queue = self._waiting[group]
            together = [own, *queue[: MOST_TOGETHER - 1]]
            del queue[: MOST_TOGETHER - 1]
        try:
            self._write_all(together)
        finally:
            for place in together[1:]:
                place.is_done = True
                place.call()
            self._hand_on(group, queue)

    def _hand_on(self, group: Hashable, queue: list[_Place[T, R]]) -> None:
        with self._lock:
            if not queue:
                del self._waiting[group]
                return
            following = queue.pop(0)
            following.leads = True
        following.call()

    def _write_all(self, places: Sequence[_Place[T, R]]) -> None:
        try:
            results = self._write([place.item for place in places])
        except Exception as error:
            if len(places) == 1:
                raise
            log.info("%d could not be written together, so each is by itself: %s", len(places), explained(error))
        else:
            for place, result in zip(places, results, strict=True):
                place.result = result
