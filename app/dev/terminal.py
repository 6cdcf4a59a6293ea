"""Terminal: steps with durations, an updating status line and tables, for a terminal or a CI log."""

import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.control import Control
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from app.cli.console import open_console, table_of

_PLAIN_STATUS_SECONDS = 5.0  # without a terminal, repeat the status line no more often than this
_START_OF_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 0))

Part = str | Text | tuple[str, str]
"""Text as it is, or with a style of rich's such as "bold"."""


class Terminal:
    """Output for a terminal, or plain lines for a file; thread-safe."""

    def __init__(self, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        self._console = open_console(out)
        self._is_live = out.isatty() and not self._console.is_dumb_terminal
        self._lock = threading.Lock()
        self._has_status = False
        self._status_at = -_PLAIN_STATUS_SECONDS

    def line(self, *parts: Part) -> None:
        """Print a line assembled from parts."""
        self._print(Text.assemble(*parts))

    def heading(self, text: str) -> None:
        self.line("\n", (text, "bold"))

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Announce a step and print its duration."""
        started = time.monotonic()
        if self._is_live:
            self.status(f"  … {what}")
        try:
            yield
        except BaseException:
            self.line("  ", ("✗", "red"), f" {what}")
            raise
        self.line("  ", ("✓", "green"), f" {what}  ", (f"{time.monotonic() - started:.1f} s", "dim"))

    def status(self, text: str) -> None:
        """Replace the status line; in a file print it at most every few seconds."""
        with self._lock:
            if self._is_live:
                self._clear_status()
                self._console.print(Text(text[: self._console.width - 1]), end="", soft_wrap=True)
                self._console.file.flush()
                self._has_status = True
            elif time.monotonic() - self._status_at >= _PLAIN_STATUS_SECONDS:
                self._status_at = time.monotonic()
                self._console.print(Text(text), soft_wrap=True)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> None:
        """Print a table; `right` names the right-aligned columns."""
        self._print(table_of(header, rows, right=right))

    def _print(self, what: Text | Table) -> None:
        with self._lock:
            self._clear_status()
            # The terminal wraps lines, so that they can be copied in one piece; tables wrap in their columns.
            self._console.print(what, soft_wrap=isinstance(what, Text))
            self._console.file.flush()

    def _clear_status(self) -> None:
        if self._has_status:
            self._console.control(_START_OF_LINE)
            self._has_status = False
