"""Inbox: wake-ups for the consumer of a queue, from any thread of its worker process."""

import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from app.queue.claiming.partition import Partition


class Inbox:
    """Unread wake-ups of a consumer; `arrived` is set after each."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        # Partitions with due executions, and since when; no partitions for a poll.
        self.due = deque[tuple[Sequence[Partition], datetime | None]]()
        self.ended = deque[Sequence[tuple[str, str]]]()  # endpoints and limit keys
        self.has_room = False  # slots were given back after a refused reservation


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
        """Report due executions in partitions of a queue, in unknown ones for (), in all queues for None.

        They have been due since `since`, or for a short while if that is None.
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
        """Report endpoints and limit keys of ended executions, for which others may have waited."""
        inbox = self._by_queue.get(queue)
        if inbox is not None:
            inbox.ended.append(ended)
            inbox.has_room = True
            inbox.arrived.set()
