"""Message in the hands of a process: one attempt, from its place in the process to its outcome."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.dispatch.actor_link.frames import FrameError, FrameKind

if TYPE_CHECKING:
    from actors.dispatch.actor_link.process_session import Session


class HandKey(NamedTuple):
    """Identity of a message: attempt of an execution."""

    execution_id: str
    attempt: int

    @classmethod
    def of(cls, frame: Mapping[str, Any]) -> "HandKey":
        """Return the message that a frame names; raises FrameError."""
        execution_id, attempt = frame.get("execution"), frame.get("attempt")
        if not isinstance(execution_id, str) or not isinstance(attempt, int):
            raise FrameError("`execution` is a text and `attempt` a number")
        return cls(execution_id, attempt)


class ProcessLostError(Exception):
    """The process ended, or its connection broke, after the actor had started."""


class Hand:
    """Message that a process holds; belongs to the event loop.

    `outcome` gets the frame that ends it, or ProcessLostError. A message that was not started comes back by a BACK.
    """

    def __init__(self, session: "Session", key: HandKey, queue: str) -> None:
        self.session = session
        self.key = key
        self.queue = queue
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self.outcome: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self.outcome.add_done_callback(_seen)

    @property
    def is_started(self) -> bool:
        return self.started.done()

    def start(self) -> None:
        """Note that a thread of the process has begun the actor."""
        if not self.started.done():
            self.started.set_result(None)

    def end(self, frame: Mapping[str, Any]) -> bool:
        """End by a frame of the process; False if it has ended."""
        if self.outcome.done():
            return False
        self.outcome.set_result(frame)
        return True

    def come_back(self) -> None:
        """End a message that was not started."""
        self.end({"kind": FrameKind.BACK.value})

    def lose(self) -> None:
        """End with the loss of its process."""
        if not self.outcome.done():
            self.outcome.set_exception(ProcessLostError())


def _seen(outcome: "asyncio.Future[Mapping[str, Any]]") -> None:
    """Read the exception: the delivery of a hand may be cancelled, and nobody else would read it."""
    if not outcome.cancelled():
        outcome.exception()
