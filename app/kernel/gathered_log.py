"""Gathered log: writes the lines of a worker or web process together, some milliseconds after they were logged.

Dramatiq's processes log into pipes to their parent. A write for each delivery would wake the parent each time, and
release the interpreter within a turn of the event loop. The threads of a web process would wait for each other.

While `te-log` runs, it alone writes, so that a stream that nobody reads stops no other thread. The pipe of Dramatiq's
processes is such a stream once the parent's own output is closed: forked processes keep its other end open.
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
MAX_KEPT = 10_000  # lines that wait for a stream that nobody reads; the oldest are dropped
PATIENCE_SECONDS = 1.0  # how long a warning waits until it is written
T = TypeVar("T")
_Later = tuple[float, LineKind[Any], Any]  # the time, and what the line says


class GatheringHandler(logging.Handler):
    """Collects lines, which `te-log` writes; a warning or an error is written before its caller continues."""

    def __init__(self, stream: TextIO, has_some: threading.Event, at_once: threading.Event) -> None:
        super().__init__()
        self.gathers = True
        self._stream = stream
        self._has_some = has_some
        self._at_once = at_once
        self._lines: deque[str | _Later] = deque(maxlen=MAX_KEPT)
        self._dropped = 0
        self._awaited: deque[threading.Event] = deque()
        self._is_read = True
        self._writing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._append(self.format(record))
            if not self.gathers or record.levelno >= logging.WARNING:
                self.flush()
            else:
                self._announce()
        except Exception:  # noqa: BLE001 - logging must not raise
            self.handleError(record)

    def add(self, line: _Later) -> None:
        """Add a line that `te-log` formats by a formatter of the product, without a lock."""
        self._append(line)
        self._announce()

    def _append(self, line: str | _Later) -> None:
        self._dropped += len(self._lines) == MAX_KEPT
        self._lines.append(line)

    def _announce(self) -> None:
        if len(self._lines) >= MAX_LINES:
            self._at_once.set()
        if not self._has_some.is_set():
            self._has_some.set()

    def flush(self) -> None:
        """Wait until `te-log` has written all lines, for PATIENCE_SECONDS at most; without `te-log`, write them."""
        if self.gathers:
            written = threading.Event() if self._is_read else None
            if written is not None:
                self._awaited.append(written)
            self._at_once.set()
            self._has_some.set()
            # If nobody reads the stream, only the first caller waits.
            if written is not None and not written.wait(PATIENCE_SECONDS):
                self._is_read = False
        if not self.gathers:  # or `te-log` ended during the wait
            self.write()

    def write(self) -> None:
        """Write all lines; waits for the reader of the stream."""
        if not self._writing.acquire(timeout=PATIENCE_SECONDS):
            return
        awaited = [self._awaited.popleft() for _ in range(len(self._awaited))]
        try:
            # Other threads may append meanwhile.
            dropped, self._dropped = self._dropped, 0
            lines = [self.format(_dropped(dropped))] if dropped else []
            lines += [self._formatted(self._lines.popleft()) for _ in range(len(self._lines))]
            # The reader of the stream may have ended.
            with contextlib.suppress(OSError, ValueError):
                if lines:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
            self._is_read = True
        finally:
            self._writing.release()
            for each in awaited:
                each.set()

    def _formatted(self, line: str | _Later) -> str:
        if isinstance(line, str):
            return line
        created, kind, subject = line
        try:
            return cast("JsonFormatter | TextFormatter", self.formatter).line(created, kind, subject)
        except Exception as error:  # noqa: BLE001 - the other lines must be written
            return f"cannot format a line of {kind.logger.name}: {type(error).__name__}"


def _dropped(lines: int) -> logging.LogRecord:
    text = "dropped log lines that nobody read: %d"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (lines,), None)


class GatheredLog(BackgroundThread):
    """Lets the root logger's streams collect lines, from its start to its stop.

    If the process is killed, its last lines are lost, except lines before a warning.
    """

    # Handlers that format lines without a record; empty while a handler of another kind needs records.
    without_record: ClassVar[Sequence[GatheringHandler]] = ()

    def __init__(self) -> None:
        super().__init__("te-log")
        self._has_some = threading.Event()
        self._at_once = threading.Event()
        self._handlers: list[GatheringHandler] = []

    def start(self) -> None:
        root = logging.getLogger()
        for handler in root.handlers[:]:
            # Derived classes do something else with a line.
            if type(handler) is logging.StreamHandler:
                gathering = GatheringHandler(handler.stream, self._has_some, self._at_once)
                gathering.setFormatter(handler.formatter)
                root.removeHandler(handler)
                root.addHandler(gathering)
                self._handlers.append(gathering)
        ours = [each for each in self._handlers if isinstance(each.formatter, JsonFormatter | TextFormatter)]
        GatheredLog.without_record = ours if root.handlers == ours else ()
        super().start()

    def interrupt(self) -> None:
        self._at_once.set()
        self._has_some.set()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._has_some.wait()
                self._at_once.wait(GATHER_SECONDS)
                self._at_once.clear()
                self._has_some.clear()
                for handler in self._handlers:
                    handler.write()
        finally:
            GatheredLog.without_record = ()
            # Without this thread collected lines would not be written.
            for handler in self._handlers:
                handler.gathers = False
                handler.write()


def log_line(kind: LineKind[T], subject: T) -> None:
    """Log a line that `te-log` formats: a record takes forty calls of functions more."""
    if handlers := GatheredLog.without_record:
        line = (time.time(), kind, subject)
        for handler in handlers:
            handler.add(line)
    else:
        kind.logger.info("%s", kind.message(subject), extra={"fields": partial(kind.fields, subject)})
