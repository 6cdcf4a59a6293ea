"""Gathered log: the lines of a worker or web process, written together some milliseconds after they were logged.

Dramatiq's processes log into pipes to their parent. A write for each delivery would wake the parent each time, and let
go of the interpreter in the middle of the event loop's turn. The threads of a web process would wait for each other's
writes.
"""

import contextlib
import logging
import threading
from typing import TextIO

from app.kernel.threads import BackgroundThread

GATHER_SECONDS = 0.05
MOST_LINES = 1_000


class GatheringHandler(logging.Handler):
    """Writes the lines that it has gathered when it is flushed, and at once when one is a warning or worse."""

    def __init__(self, stream: TextIO, has_some: threading.Event) -> None:
        super().__init__()
        self.gathers = True
        self._stream = stream
        self._has_some = has_some
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line."""
        try:
            self._lines.append(self.format(record))
            if not self.gathers or record.levelno >= logging.WARNING or len(self._lines) >= MOST_LINES:
                self.flush()
            elif len(self._lines) == 1:
                self._has_some.set()
        except Exception:  # noqa: BLE001 - a line that cannot be written is no reason to fail
            self.handleError(record)

    def flush(self) -> None:
        """Write what was gathered."""
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            # Whoever reads them may be gone.
            with contextlib.suppress(OSError, ValueError):
                if lines:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
        finally:
            self.release()


class GatheredLog(BackgroundThread):
    """Lets the streams of the root logger gather lines, from its start to its stop.

    A process that is killed takes its last lines with it, but none before a warning.
    """

    def __init__(self) -> None:
        super().__init__("te-log")
        self._has_some = threading.Event()
        self._handlers: list[GatheringHandler] = []

    def start(self) -> None:
        """Begin to gather."""
        root = logging.getLogger()
        for handler in root.handlers[:]:
            # Not those that only derive from it: they do something else with a line.
            if type(handler) is logging.StreamHandler:
                gathering = GatheringHandler(handler.stream, self._has_some)
                gathering.setFormatter(handler.formatter)
                root.removeHandler(handler)
                root.addHandler(gathering)
                self._handlers.append(gathering)
        super().start()

    def interrupt(self) -> None:
        """Wake the thread."""
        self._has_some.set()

    def run(self) -> None:
        """Write what was gathered, now and again."""
        try:
            while not self.stopping.is_set():
                self._has_some.wait()
                self.stopping.wait(GATHER_SECONDS)
                self._has_some.clear()
                for handler in self._handlers:
                    handler.flush()
        finally:
            # Without this thread nobody would write what waits.
            for handler in self._handlers:
                handler.gathers = False
                handler.flush()
