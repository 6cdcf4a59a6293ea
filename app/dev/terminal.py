"""What the demo prints: steps with their duration, one updating line, tables."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

_PLAIN_STATUS_SECONDS = 5.0  # without a terminal, repeat the status line no more often than this


class Terminal:
    """Writes for a person at a terminal, or plain lines for a file; safe to use from any thread."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self.is_tty = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self.is_tty and "NO_COLOR" not in os.environ
        self._lock = threading.Lock()
        self._status = ""
        self._status_at = -_PLAIN_STATUS_SECONDS

    def line(self, text: str = "") -> None:
        with self._lock:
            self._clear_status()
            self._write(text + "\n")

    def heading(self, text: str) -> None:
        self.line(f"\n{self.bold(text)}")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say what is being done, and how long it took once it is."""
        started = time.monotonic()
        if self.is_tty:
            self.status(f"  … {what}")
        try:
            yield
        except BaseException:
            self.line(f"  {self.red('✗')} {what}")
            raise
        self.line(f"  {self.green('✓')} {what}  {self.dim(f'{time.monotonic() - started:.1f} s')}")

    def status(self, text: str) -> None:
        """Replace the updating line; without a terminal, print it when it is time or what it says is new."""
        with self._lock:
            if self.is_tty:
                self._clear_status()
                self._status = text[: shutil.get_terminal_size().columns - 1]
                self._write(self._status)
            elif time.monotonic() - self._status_at >= _PLAIN_STATUS_SECONDS:
                self._status_at = time.monotonic()
                self._write(text + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Print a table; the columns whose numbers are in `right` are aligned to the right."""
        widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
        for number, row in enumerate([header, *rows]):
            cells = [
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            text = "  " + "  ".join(cells).rstrip()
            self.line(self.dim(text) if number == 0 else self._coloured_status(text))

    def bold(self, text: str) -> str:
        return self._colour("1", text)

    def dim(self, text: str) -> str:
        return self._colour("2", text)

    def green(self, text: str) -> str:
        return self._colour("32", text)

    def red(self, text: str) -> str:
        return self._colour("31", text)

    def _coloured_status(self, text: str) -> str:
        return text.replace("SUCCESS", self.green("SUCCESS")).replace("FAILED", self.red("FAILED"))

    def _colour(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text

    def _clear_status(self) -> None:
        if self._status:
            self._write("\r\x1b[K")
            self._status = ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
