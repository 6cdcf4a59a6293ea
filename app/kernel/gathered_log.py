"""Gathered log: writes the lines of a worker or web process together, some milliseconds after they were logged.

Dramatiq's processes log into pipes to their parent. A write for each delivery would wake the parent each time, and
release the interpreter within a turn of the event loop. The threads of a web process would wait for each other.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, TextIO, TypeVar, cast

from app.kernel.log import JsonFormatter, LineKind, TextFormatter
from app.kernel.threads import BackgroundThread

GATHER_SECONDS = 0.05
MAX_LINES = 1_000
T = TypeVar("T")
_Later = tuple[float, LineKind[Any], Any]  # the time, and what the line says


class GatheringHandler(logging.Handler):
    """Collects lines, and writes them when it is flushed; a warning or an error flushes at once."""

    def __init__(self, stream: TextIO, has_some: threading.Event) -> None:
        super().__init__()
        self.gathers = True
        self._stream = stream
        self._has_some = has_some
        self._lines: deque[str | _Later] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record))
            if not self.gathers or record.levelno >= logging.WARNING or len(self._lines) >= MAX_LINES:
                self.flush()
            elif len(self._lines) == 1:
                self._has_some.set()
        except Exception:  # noqa: BLE001 - logging must not raise
            self.handleError(record)

    def add(self, line: _Later) -> None:
        """Add a line that `flush` formats by a formatter of the product, without a lock."""
        self._lines.append(line)
        if len(self._lines) >= MAX_LINES:
            self.flush()
        elif not self._has_some.is_set():
            self._has_some.set()

    def flush(self) -> None:
        self.acquire()
        try:
            # Other threads may append meanwhile.
            lines = [self._formatted(self._lines.popleft()) for _ in range(len(self._lines))]
            # The reader of the stream may have ended.
            with contextlib.suppress(OSError, ValueError):
                if lines:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
        finally:
            self.release()

    def _formatted(self, line: str | _Later) -> str:
        if isinstance(line, str):
            return line
        created, kind, subject = line
        try:
            return cast("JsonFormatter | TextFormatter", self.formatter).line(created, kind, subject)
        except Exception as error:  # noqa: BLE001 - the other lines must be written
            return f"cannot format a line of {kind.logger.name}: {type(error).__name__}"


class GatheredLog(BackgroundThread):
    """Lets the root logger's streams collect lines, from its start to its stop.

    If the process is killed, its last lines are lost, except lines before a warning.
    """

    # Handlers that format lines without a record; empty while a handler of another kind needs records.
    without_record: ClassVar[Sequence[GatheringHandler]] = ()

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
        ours = [each for each in self._handlers if isinstance(each.formatter, JsonFormatter | TextFormatter)]
        GatheredLog.without_record = ours if root.handlers == ours else ()
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
            GatheredLog.without_record = ()
            # Without this thread collected lines would not be written.
            for handler in self._handlers:
                handler.gathers = False
                handler.flush()


def log_line(kind: LineKind[T], subject: T) -> None:
    """Log a line that `te-log` formats: a record takes forty calls of functions more."""
    if handlers := GatheredLog.without_record:
        line = (time.time(), kind, subject)
        for handler in handlers:
            handler.add(line)
    else:
        kind.logger.info("%s", kind.message(subject), extra={"fields": partial(kind.fields, subject)})
