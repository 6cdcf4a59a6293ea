"""Reports to the processes: which outcomes are stored."""

import asyncio
import contextlib
from collections import defaultdict, deque

from actors.dispatch.actor_link.frames import FrameKind, encode_about
from actors.dispatch.actor_link.hand import Hand
from actors.dispatch.actor_link.process_session import Session

GATHER_SECONDS = 0.002  # without it, each report of a batch wakes the loop, which delays the batch


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
                self._loop.call_soon_threadsafe(self._loop.call_later, GATHER_SECONDS, self.send)

    def send(self) -> None:
        """Send all reports; on the event loop."""
        self._is_called = False  # first: a report from now on calls again
        frames = defaultdict[Session, list[bytes]](list)
        while self._reports:
            hand, is_written = self._reports.popleft()
            told = ',"is_written":true' if is_written else ',"is_written":false'
            frames[hand.session].append(encode_about(FrameKind.WRITTEN, *hand.key, told))
        for session, together in frames.items():
            session.write(b"".join(together))
