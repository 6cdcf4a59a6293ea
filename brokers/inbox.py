"""Inbox: wake-ups for the consumer of one queue, from any thread of its worker process."""

import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from app.queue.claiming.partition import Partition


class Inbox:
    """Wake-ups that a consumer has not read yet; `arrived` is set after each."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        # Partitions with something due, and since when; without partitions a poll is asked for.
        self.due = deque[tuple[Sequence[Partition], datetime | None]]()
        self.ended = deque[Sequence[tuple[str, str]]]()  # endpoints and limit keys
        self.has_room = False  # there may be slots again after a reservation was refused


class Inboxes:
    """The inboxes of a worker process, by queue; no method blocks."""

    def __init__(self) -> None:
        self.unknown = threading.Event()  # set by a wake-up for a queue that has no inbox
        self._by_queue: dict[str, Inbox] = {}

    def open(self, queue: str) -> Inbox:
        """Return a new inbox; it replaces the inbox of the queue's last consumer."""
        inbox = self._by_queue[queue] = Inbox()
        return inbox

    def wake(
        self, queue: str | None = None, partitions: Sequence[Partition] = (), since: datetime | None = None
    ) -> None:
        """Report something due in partitions of a queue; without partitions in any, without a queue in all queues.

        It has been due since `since`; None means a short while.
        """
        if queue is not None and queue not in self._by_queue:
            self.unknown.set()
        for name, inbox in list(self._by_queue.items()):
            if queue in (None, name):
                inbox.due.append((partitions, since))
                inbox.arrived.set()

    def tell_room(self) -> None:
        """Report to all consumers that slots were given back."""
        for inbox in list(self._by_queue.values()):
            inbox.has_room = True
            inbox.arrived.set()

    def tell_ended(self, queue: str, ended: Sequence[tuple[str, str]]) -> None:
        """Report endpoints and limit keys of executions that have ended and made others wait."""
        inbox = self._by_queue.get(queue)
        if inbox is not None:
            inbox.ended.append(ended)
            inbox.has_room = True
            inbox.arrived.set()
