"""Base classes of the generated operations."""

from typing import Any, Protocol

from .call import Call


class Sender(Protocol):
    """Blocking sender of calls."""

    def request(self, call: Call) -> Any:
        """Send a call and return its answer."""


class AsyncSender(Protocol):
    """Asynchronous sender of calls."""

    async def request(self, call: Call) -> Any:
        """Send a call and return its answer."""


class Group:
    """Group of operations.

    Args:
        sender: Client that sends the calls.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


class AsyncGroup:
    """Group of asynchronous operations.

    Args:
        sender: Client that sends the calls.
    """

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
