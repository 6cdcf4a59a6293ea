"""Output of commands on a real terminal and in a file."""

import io
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO

import pytest

from app.cli.console import progress, show_table

ID = "exec_18ea8cd798b676b0114b49163d44386f"
WORDS = "the endpoint answered 500 Internal Server Error; expected 200, 201"
AT = "2026-11-23T02:51:03.821Z"


@contextmanager
def terminal() -> Iterator[tuple[TextIO, list[str]]]:
    """Yield a terminal, and a list that holds the output once the block has ended."""
    master, slave = pty.openpty()
    seen = list[str]()
    try:
        with os.fdopen(slave, "w", encoding="utf-8") as out:
            yield out, seen
        seen.append(b"".join(_chunks(master)).decode())
    finally:
        os.close(master)


def _chunks(master: int) -> Iterator[bytes]:
    """Yield the output in the chunks that the terminal returns; Linux signals the end by an error (EIO)."""
    with suppress(OSError):
        while chunk := os.read(master, 100_000):
            yield chunk


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_ids_and_times_are_never_cut_and_long_text_is_wrapped(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    with terminal() as (out, seen), redirect_stdout(out):
        show_table(("EXECUTION", "DUE", "LAST ERROR"), [(ID, AT, WORDS)])
    lines = seen[0].splitlines()
    assert f"{ID}  {AT}" in lines[1]
    assert (WORDS in lines[1]) == (columns == 200)
    assert " ".join(line.split(AT)[-1].strip() for line in lines[1:]).strip() == WORDS


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal() as (out, seen), redirect_stderr(out), progress("secrets", 2) as advance:
        advance(1)
        advance(1)
    assert "of 2 secrets" in seen[0]
    file = io.StringIO()
    with redirect_stderr(file), progress("executions deleted") as advance:
        advance(1_000)
    assert file.getvalue() == ""


def test_dumb_terminal_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal() as (out, seen), redirect_stderr(out), progress("secrets", 2) as advance:
        advance(1)
    assert seen == [""]
