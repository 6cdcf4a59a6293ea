"""Message in the hands of a process: one attempt, from its place in the process to its outcome."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.dispatch.actor_link.frames import FrameError, FrameKind
from app.kernel.function_types import Call

if TYPE_CHECKING:
    from actors.dispatch.actor_link.process_session import Session


ANSWER_SECONDS = 30.0  # for a process that is asked for a message back to send anything at all


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
    """The process ended, or its connection broke, or it gave the message back, after the actor had started."""


class Hand:
    """Message that a process holds; belongs to the event loop.

    `outcome` gets the frame that ends it, ProcessLostError or TimeoutError. An unstarted message
    comes back by a BACK.
    """

    def __init__(self, session: "Session", key: HandKey, queue: str) -> None:
        self.session = session
        self.key = key
        self.queue = queue
        self.is_ahead = False
        self.is_dropped = False  # asked back
        self.unstarted_seconds = 0.0  # its longest wait for a thread
        self.is_started = False
        self.on_start: Call | None = None
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._timeout_s = 0.0
        self._soft: tuple[float, Call] | None = None
        self.outcome: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        self.outcome.add_done_callback(_seen)

    def watch(self, timeout_s: float, soft: tuple[float, Call] | None) -> None:
        """Bound the waits for a thread and, from the start, for the outcome, which gets a TimeoutError.

        `soft`: seconds from the start, and what to call then. Timers instead of tasks, because each message pays.
        """
        self._timeout_s, self._soft = timeout_s, soft
        self._timers = [self._loop.call_later(self.unstarted_seconds, self._take_back)]

    def unwatch(self) -> None:
        """End the waits."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def start(self) -> None:
        """Note that a thread of the process has begun the actor."""
        if self.is_started:
            return
        self.is_started = True
        if self.on_start is not None:
            self.on_start()
        if self._timers:
            self.unwatch()
            self._timers.append(self._loop.call_later(self._timeout_s, self._time_out))
            if self._soft is not None:
                self._timers.append(self._loop.call_later(*self._soft))

    def _take_back(self) -> None:
        """Ask for a message that no thread begins; the answer is BACK, or the STARTED that is on its way."""
        self.is_dropped = True
        self.session.drop(self)
        wait = min(ANSWER_SECONDS, self._timeout_s)
        self._timers = [self._loop.call_later(wait, self._stop_waiting, self.session.heard, self._timeout_s - wait)]

    def _stop_waiting(self, heard: int, left_s: float) -> None:
        """Take a message from a process that has sent nothing since then: it is stopped, or a thread holds its GIL.

        Another process gets the message at once. A process that sends, but no answer, may have begun the message, so
        it is lost only at its time limit.
        """
        if self.session.falls_silent(heard) and not self.outcome.done():
            self.come_back()
        else:
            self._timers = [self._loop.call_later(left_s, self._time_out)]

    def _time_out(self) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(TimeoutError())

    def end(self, frame: Mapping[str, Any]) -> bool:
        """End by a frame of the process; False if it has ended."""
        if self.outcome.done():
            return False
        if self.is_started and frame["kind"] == FrameKind.BACK:
            self.lose("gave it back after its start")
        else:
            self.outcome.set_result(frame)
        return True

    def come_back(self) -> None:
        """End a message that was not started."""
        self.end({"kind": FrameKind.BACK.value})

    def lose(self, event: str = "ended while it ran the actor") -> None:
        """End with the loss of its process; the event follows the name of the process in the error."""
        if not self.outcome.done():
            self.outcome.set_exception(ProcessLostError(event))


def _seen(outcome: "asyncio.Future[Mapping[str, Any]]") -> None:
    """Read the exception: the delivery of a hand may be cancelled, and nobody else would read it."""
    if not outcome.cancelled():
        outcome.exception()
