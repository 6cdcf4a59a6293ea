"""Output of development tools to a file and to a terminal."""

import io

import pytest

from app.dev.terminal import Terminal


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns, without the settings of the person who runs the tests."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")


def report(out: io.StringIO) -> str:
    terminal = Terminal(out)
    terminal.heading("Result")
    with terminal.step("a step"):
        pass
    terminal.table(
        ["JOB", "NUMBER"], [["job_" + "x" * 60, "1"], ["job_2 [SUCCESS] {{config.a}}", "20"]], right=["NUMBER"]
    )
    terminal.line("w" * 200, (" [dim]not markup[/dim] :smile:", "dim"))
    return out.getvalue()


def test_file_gets_plain_text_of_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = report(io.StringIO())
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "  ✓ a step  " in shown
    lines = [line.rstrip() for line in shown.splitlines()]
    assert "  job_" + "x" * 60 + "       1" in lines
    assert "  job_2 [SUCCESS] {{config.a}}" in [line[:30] for line in lines]
    assert "w" * 200 + " [dim]not markup[/dim] :smile:" in lines


def test_terminal_gets_colours_and_complete_text() -> None:
    shown = report(Tty())
    assert "\x1b[32mSUCCESS" in shown
    assert "w" * 200 in shown, "the program wraps a line, which is left to the terminal"
    assert shown.count("x") == 60, "a column is cut instead of wrapped"


def test_terminal_without_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in report(Tty())


def test_status_is_one_line_that_the_next_status_replaces() -> None:
    out = Tty()
    terminal = Terminal(out)
    terminal.status("1 of 2")
    terminal.status("2 of 2 " + "y" * 100)
    terminal.line("done")
    first, second, done = out.getvalue().split("\r\x1b[0K")
    assert first == "1 of 2"
    assert len(second) == 39, "a status must be cut to one line"
    assert done == "done\n"


def test_file_gets_a_status_only_from_time_to_time() -> None:
    out = io.StringIO()
    terminal = Terminal(out)
    terminal.status("1 of 2")
    terminal.status("2 of 2")
    assert out.getvalue() == "1 of 2\n"
