"""Outbox: the thread that handles the completion events of this worker process at once.

A scheduler handles the rest within seconds (app.scheduler.outbox_chore), if this thread is overloaded or dies.
"""

import logging
from collections import deque
from collections.abc import Iterable

from app.kernel.errors import UnavailableError
from app.kernel.function_types import Hint, nobody
from app.kernel.threads import STOP_SECONDS, BackgroundThread
from app.queue.ending.outbox_processor import BATCH, OutboxProcessor, OutboxResult
from brokers.inbox import Inboxes

log = logging.getLogger(__name__)

MAX_WAITING = 10_000  # events; more are left to the schedulers
MANY = 25  # executions that became due at once; more are for other processes, too


class OutboxThread(BackgroundThread):
    """Handles events in batches, and wakes the consumers of queues with executions that became due.

    Continues the work of one follow-up after each batch, so that neither delays the other for long.
    """

    def __init__(self, handler: OutboxProcessor, inboxes: Inboxes, hint: Hint = nobody) -> None:
        """`hint` wakes the workers of a queue in all processes."""
        super().__init__("te-outbox")
        self._hint = hint
        self._handler = handler
        self._inboxes = inboxes
        self._waiting: deque[str] = deque()
        self._follow_ups: dict[tuple[str, str], None] = {}  # in their order, each once
        self._is_busy = False

    def submit(self, end_ids: Iterable[str]) -> None:
        """Take ids of written events; never blocks."""
        with self._changed:
            for end_id in end_ids:
                if len(self._waiting) < MAX_WAITING:
                    self._waiting.append(end_id)
            self._changed.notify_all()

    def flush(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Wait until all events are handled; False after the timeout. Follow-ups are left to the schedulers."""
        with self._changed:
            return self._changed.wait_for(self._is_done, timeout_seconds)

    def run(self) -> None:
        while (batch := self._next()) is not None:
            if batch:
                self._handle(batch)
            if self._follow_ups:
                self._follow_up()

    def _handle(self, batch: list[str]) -> None:
        try:
            done = self._handler.handle(batch)
        except UnavailableError as error:
            log.warning(
                "could not process completion events (%d): %s; leaving them to the schedulers",
                len(batch),
                error.explained,
            )
        except Exception:
            log.exception("could not process completion events (%d); leaving them to the schedulers", len(batch))
        else:
            self._take(done)

    def _follow_up(self) -> None:
        name, key = next(iter(self._follow_ups))
        del self._follow_ups[name, key]
        try:
            done = self._handler.follow_up(name, key)
        except UnavailableError as error:
            log.warning("could not continue %s of handler %s: %s; leaving it to a chore", key, name, error.explained)
        except Exception:
            log.exception("could not continue %s of handler %s; leaving it to a chore", key, name)
        else:
            self._take(done)

    def _take(self, done: OutboxResult) -> None:
        for queue, number in done.queues.items():
            self._inboxes.wake(queue)
            if number > MANY:
                self._hint(queue)
        self._follow_ups |= dict.fromkeys(sorted(done.follow_ups))
        self.submit(done.written)

    def _is_done(self) -> bool:
        return not (self._waiting or self._is_busy)

    def _has_something(self) -> bool:
        return bool(self._waiting or self._follow_ups) or self.stopping.is_set()

    def _next(self) -> list[str] | None:
        """Wait for events or follow-ups; returns the next events, None once the thread is stopping."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(self._has_something)
            if self.stopping.is_set():
                return None
            self._is_busy = bool(self._waiting)
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
