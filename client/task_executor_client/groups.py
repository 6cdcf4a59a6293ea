"""What the generated classes are made of."""

from typing import Any, Protocol

from .call import Call


class Sender(Protocol):
    """Sends calls, and waits for their answers."""

    def send(self, call: Call) -> Any:
        """Return the answer."""


class AsyncSender(Protocol):
    """Sends calls; their answers are awaited."""

    async def send(self, call: Call) -> Any:
        """Return the answer."""


class Group:
    """Some operations of one sender."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


class AsyncGroup:
    """Some operations of one sender."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
