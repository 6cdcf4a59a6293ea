"""Gathered log: writes the lines of a worker or web process together, some milliseconds after they were logged.

Dramatiq's processes log into pipes to their parent. A write for each delivery would wake the parent each time, and
release the interpreter within a turn of the event loop. The threads of a web process would wait for each other.
"""

import contextlib
import logging
import threading
from typing import TextIO

from app.kernel.threads import BackgroundThread

GATHER_SECONDS = 0.05
MAX_LINES = 1_000


class GatheringHandler(logging.Handler):
    """Collects lines, and writes them when it is flushed; a warning or an error flushes at once."""

    def __init__(self, stream: TextIO, has_some: threading.Event) -> None:
        super().__init__()
        self.gathers = True
        self._stream = stream
        self._has_some = has_some
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record))
            if not self.gathers or record.levelno >= logging.WARNING or len(self._lines) >= MAX_LINES:
                self.flush()
            elif len(self._lines) == 1:
                self._has_some.set()
        except Exception:  # noqa: BLE001 - logging must not raise
            self.handleError(record)

    def flush(self) -> None:
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            # The reader of the stream may have ended.
            with contextlib.suppress(OSError, ValueError):
                if lines:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
        finally:
            self.release()


class GatheredLog(BackgroundThread):
    """Lets the root logger's streams collect lines, from its start to its stop.

    If the process is killed, its last lines are lost, except lines before a warning.
    """

    def __init__(self) -> None:
        super().__init__("te-log")
        self._has_some = threading.Event()
        self._handlers: list[GatheringHandler] = []

    def start(self) -> None:
        root = logging.getLogger()
        for handler in root.handlers[:]:
            # Derived classes do something else with a line.
            if type(handler) is logging.StreamHandler:
                gathering = GatheringHandler(handler.stream, self._has_some)
                gathering.setFormatter(handler.formatter)
                root.removeHandler(handler)
                root.addHandler(gathering)
                self._handlers.append(gathering)
        super().start()

    def interrupt(self) -> None:
        self._has_some.set()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._has_some.wait()
                self.stopping.wait(GATHER_SECONDS)
                self._has_some.clear()
                for handler in self._handlers:
                    handler.flush()
        finally:
            # Without this thread collected lines would not be written.
            for handler in self._handlers:
                handler.gathers = False
                handler.flush()
