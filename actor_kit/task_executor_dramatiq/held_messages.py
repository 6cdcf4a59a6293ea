"""Messages that a process holds, from their arrival to their outcome, and the inboxes of its queues."""

import queue
from collections.abc import Iterator

from task_executor_dramatiq.frames import MessageKey
from task_executor_dramatiq.in_hand import MessageInHand

Inbox = queue.SimpleQueue[MessageInHand]


class HeldMessages:
    """Messages by key, and the place for them in each queue; the caller holds the lock of the link."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}  # by queue
        self._inboxes: dict[str, Inbox] = {}
        self._by_key: dict[MessageKey, MessageInHand] = {}

    def __iter__(self) -> Iterator[MessageInHand]:
        return iter([*self._by_key.values()])

    def __len__(self) -> int:
        return len(self._by_key)

    def set_places(self, queue_name: str, places: int) -> Inbox:
        """Set the number of messages that a queue takes; returns where they arrive."""
        self.places[queue_name] = places
        return self._inboxes.setdefault(queue_name, Inbox())

    def get(self, key: MessageKey) -> MessageInHand | None:
        """Return a message that is held."""
        return self._by_key.get(key)

    def add(self, message: MessageInHand) -> Inbox | None:
        """Hold a message; returns the inbox of its queue, or None if nothing consumes the queue."""
        self._by_key[message.key] = message
        name = message.queue_name
        return self._inboxes.get(name) if self.places.get(name) else None

    def remove(self, key: MessageKey) -> None:
        """Hold a message no longer."""
        self._by_key.pop(key, None)

    def drop_unstarted(self) -> None:
        """Drop all messages that have not started: the worker has taken them back."""
        for message in self:
            if message.drop():
                self.remove(message.key)
