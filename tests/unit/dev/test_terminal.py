"""Terminal: what a file gets, and what a person."""

import io

import pytest

from app.dev.terminal import Terminal


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns, without the settings of whoever runs the tests."""
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


def test_a_file_gets_plain_text_whatever_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = report(io.StringIO())
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "  ✓ a step  " in shown
    lines = [line.rstrip() for line in shown.splitlines()]
    assert "  job_" + "x" * 60 + "       1" in lines
    assert "  job_2 [SUCCESS] {{config.a}}" in [line[:30] for line in lines]
    assert "w" * 200 + " [dim]not markup[/dim] :smile:" in lines


def test_a_terminal_gets_colours_and_loses_nothing() -> None:
    shown = report(Tty())
    assert "\x1b[32mSUCCESS" in shown
    assert "w" * 200 in shown, "lines are wrapped by the terminal"
    assert shown.count("x") == 60, "a column is folded, not cut"


def test_a_terminal_without_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in report(Tty())


def test_the_status_is_one_line_that_the_next_one_replaces() -> None:
    out = Tty()
    terminal = Terminal(out)
    terminal.status("1 of 2")
    terminal.status("2 of 2 " + "y" * 100)
    terminal.line("done")
    first, second, done = out.getvalue().split("\r\x1b[0K")
    assert first == "1 of 2"
    assert len(second) == 39, "cut, so that it stays one line"
    assert done == "done\n"


def test_a_file_gets_the_status_now_and_then() -> None:
    out = io.StringIO()
    terminal = Terminal(out)
    terminal.status("1 of 2")
    terminal.status("2 of 2")
    assert out.getvalue() == "1 of 2\n"
