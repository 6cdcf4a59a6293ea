"""Reports to the processes: which outcomes are stored."""

import asyncio
import contextlib
from collections import defaultdict, deque

from actors.dispatch.actor_link.frames import FrameKind, encode
from actors.dispatch.actor_link.hand import Hand
from actors.dispatch.actor_link.process_session import Session


class WrittenReports:
    """Passes reports from the thread that writes outcomes to the event loop, with one wake-up for a whole batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reports = deque[tuple[Hand, bool]]()
        self._is_called = False

    def add(self, hand: Hand, is_written: bool) -> None:
        """Report to a process whether its outcome is stored; from any thread."""
        self._reports.append((hand, is_written))
        if not self._is_called:
            self._is_called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
        self._is_called = False  # first: a report from now on calls again
        frames = defaultdict[Session, list[bytes]](list)
        while self._reports:
            hand, is_written = self._reports.popleft()
            named = {"execution": hand.key.execution_id, "attempt": hand.key.attempt}
            frames[hand.session].append(encode(FrameKind.WRITTEN, **named, is_written=is_written))
        for session, together in frames.items():
            session.write(b"".join(together))
