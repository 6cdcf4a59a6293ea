"""Messages that a process holds, from their arrival to their outcome, and the inboxes of its queues."""

import logging
import queue
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dramatiq.errors import DecodeError

from task_executor_dramatiq.frames import MessageKey, encode_malformed, key_of
from task_executor_dramatiq.in_hand import MessageInHand

if TYPE_CHECKING:
    from task_executor_dramatiq.link import Links

log = logging.getLogger("task_executor_dramatiq")

Inbox = queue.SimpleQueue[MessageInHand]


class HeldMessages:
    """Messages by key, and the places for messages in each queue; its methods take the lock of the link."""

    def __init__(self, links: "Links") -> None:
        self.places: dict[str, int] = {}  # by queue
        self.unstarted: set[MessageKey] = set()
        self._inboxes: dict[str, Inbox] = {}
        self._by_key: dict[MessageKey, MessageInHand] = {}
        self._links = links

    def __len__(self) -> int:
        return len(self._by_key)

    def set_places(self, queue_name: str, places: int) -> Inbox:
        """Set the number of messages that a queue takes; returns where they arrive."""
        self.places[queue_name] = places
        return self._inboxes.setdefault(queue_name, Inbox())

    def take(self, frame: Mapping[str, Any]) -> None:
        """Put a message that has arrived into the inbox of its queue, or give it back if nothing consumes the queue."""
        try:
            message = MessageInHand(frame, self._links, self._links.generation)
        except DecodeError as error:
            log.warning("cannot decode the message of execution %s: %s", frame["execution"], error)
            self._links.write(encode_malformed(key_of(frame), str(error)))
            return
        with self._links.lock:
            if not self._links.takes_messages:
                return
            self._by_key[message.key] = message
            self.unstarted.add(message.key)
        inbox = self._inboxes.get(frame["queue"])
        if inbox is None or not self.places.get(frame["queue"]):
            self.give_back(message)
        else:
            inbox.put(message)

    def drop(self, key: MessageKey) -> None:
        """Give a message back unless it has started."""
        if (message := self._by_key.get(key)) is not None:
            self.give_back(message)

    def abort(self, key: MessageKey) -> None:
        """Interrupt the actor of a message, or drop the message."""
        if (message := self._by_key.get(key)) is not None:
            message.abort()
            if message.is_dropped:  # no outcome follows, which would end the hold
                self.remove(key)

    def give_back(self, message: MessageInHand) -> None:
        """Give a message back that has not started."""
        if message.drop():
            self._links.send_of(message, "BACK")
            self.remove(message.key)

    def give_all_back(self) -> None:
        """Give all messages back that have not started."""
        for message in [*self._by_key.values()]:
            self.give_back(message)

    def drop_unstarted(self) -> None:
        """Drop all messages that have not started: the worker has taken them back."""
        for message in [*self._by_key.values()]:
            if message.drop():
                self.remove(message.key)

    def remove(self, key: MessageKey) -> None:
        """Hold a message no longer."""
        with self._links.lock:
            self._by_key.pop(key, None)
            self.unstarted.discard(key)
