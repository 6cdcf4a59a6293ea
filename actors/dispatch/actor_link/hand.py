"""Message in the hands of a process: one attempt, from its place in the process to its outcome."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.dispatch.actor_link.frames import FrameError, FrameKind
from app.kernel.function_types import Call

if TYPE_CHECKING:
    from actors.dispatch.actor_link.hand_deadlines import HandDeadlines
    from actors.dispatch.actor_link.process_session import Session


MAX_ID = 64  # characters of the id of an execution; a process may send any text, and the log repeats it
ANSWER_SECONDS = 30.0  # for a process that is asked for a message back to send anything at all


class HandKey(NamedTuple):
    """Identity of a message: attempt of an execution."""

    execution_id: str
    attempt: int

    @classmethod
    def of(cls, frame: Mapping[str, Any]) -> "HandKey":
        """Return the message that a frame names; raises FrameError."""
        execution_id, attempt = frame.get("execution"), frame.get("attempt")
        if not isinstance(execution_id, str) or len(execution_id) > MAX_ID or not isinstance(attempt, int):
            raise FrameError(f"`execution` is a text of at most {MAX_ID} characters and `attempt` a number")
        return tuple.__new__(cls, (execution_id, attempt))  # two for each message: without the call of cls


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
        self.started_at = 0.0  # on time.monotonic(); 0.0: no thread of the process has begun the actor
        self.on_start: Call | None = None
        self._loop = asyncio.get_running_loop()
        self._deadlines: HandDeadlines | None = None  # while they watch it
        self.due_at = math.inf
        self._on_due: Call = self._time_out
        self._timeout_s = 0.0
        self._soft: tuple[float, Call] | None = None
        self._heard = 0  # frames of the process before the question
        self.outcome: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()

    def watch(self, deadlines: "HandDeadlines", timeout_s: float, soft: tuple[float, Call] | None) -> None:
        """Bound the waits for a thread and, from the start, for the outcome, which gets a TimeoutError.

        `soft`: seconds from the start, and what to call then.
        """
        self._deadlines, self._timeout_s, self._soft = deadlines, timeout_s, soft
        deadlines.hands.add(self)
        self._await(self.unstarted_seconds, self._take_back)

    @property
    def has_reported(self) -> bool:
        """Whether a frame of the process is the outcome, and no BACK."""
        outcome = self.outcome
        is_frame = outcome.done() and not outcome.cancelled() and outcome.exception() is None
        return is_frame and outcome.result()["kind"] != FrameKind.BACK

    def unwatch(self) -> None:
        """End the waits."""
        if self._deadlines is not None:
            self._deadlines.hands.discard(self)
            self._deadlines = None

    def come_due(self) -> None:
        """Act at the end of a wait."""
        self.due_at = math.inf
        self._on_due()

    def start(self) -> None:
        """Note that a thread of the process has begun the actor."""
        if self.started_at:
            return
        self.started_at = time.monotonic()
        if self.on_start is not None:
            self.on_start()
        if self._soft is not None and self._soft[0] < self._timeout_s:
            self._await(self._soft[0], self._pass_soft_limit)
        else:
            self._await(self._timeout_s, self._time_out)

    def _await(self, seconds: float, then: Call) -> None:
        if self._deadlines is not None:
            self.due_at, self._on_due = self._loop.time() + seconds, then
            if self.due_at < self._deadlines.at:  # else an earlier look comes, which usually finds nothing due
                self._deadlines.hasten(self.due_at)

    def _pass_soft_limit(self) -> None:
        if self._soft is not None:
            try:
                self._soft[1]()
            finally:
                self._await(self._timeout_s - self._soft[0], self._time_out)

    def _take_back(self) -> None:
        """Ask for a message that no thread begins; the answer is BACK, or the STARTED that is on its way."""
        self.is_dropped = True
        self.session.drop(self)
        self._heard = self.session.heard
        self._await(min(ANSWER_SECONDS, self._timeout_s), self._stop_waiting)

    def _stop_waiting(self) -> None:
        """Take a message from a process that has sent nothing since then: it is stopped, or a thread holds its GIL.

        Another process gets the message at once. A process that sends, but no answer, may have begun the message, so
        it is lost only at its time limit.
        """
        if self.session.falls_silent(self._heard) and not self.outcome.done():
            self.come_back()
        else:
            self._await(max(0.0, self._timeout_s - ANSWER_SECONDS), self._time_out)

    def _time_out(self) -> None:
        self.unwatch()
        self._fail(TimeoutError())

    def end(self, frame: Mapping[str, Any]) -> bool:
        """End by a frame of the process; False if it has ended."""
        if self.outcome.done():
            return False
        if self.started_at and frame["kind"] == FrameKind.BACK:
            self.lose("gave it back after its start")
        else:
            self.outcome.set_result(frame)
        return True

    def come_back(self) -> None:
        """End a message that was not started."""
        self.end({"kind": FrameKind.BACK.value})

    def lose(self, event: str = "ended while it ran the actor") -> None:
        """End with the loss of its process; the event follows the name of the process in the error."""
        self._fail(ProcessLostError(event))

    def _fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # read: the delivery may be cancelled, and nobody else would read it
