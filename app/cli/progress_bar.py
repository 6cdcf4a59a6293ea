"""Progress: how far long work is, on a terminal and nowhere else, whatever is printed meanwhile to a file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli.console import open_console

Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show a bar, or without a total how many are done and for how long; yields what tells of so many more.

    It is drawn on standard error, and gone at the end. A terminal without cursor movement (TERM=dumb) shows none.
    """
    console = open_console(sys.stderr)
    is_drawn = console.is_terminal and not console.is_dumb_terminal
    shape = (SpinnerColumn(), BarColumn(), "{task.completed:,} of {task.total:,}") if total else (SpinnerColumn(),)
    count = TextColumn("{task.fields[count]}")
    with Progress(
        *shape, TextColumn("{task.description}"), count, TimeElapsedColumn(),
        console=console, transient=True, disable=not is_drawn, redirect_stdout=False, redirect_stderr=False,
    ) as bars:  # fmt: skip
        task = bars.add_task(what, total=total, count="")
        done = 0

        def advance(number: int) -> None:
            nonlocal done
            done += number
            bars.update(task, completed=done, count="" if total else f"{done:,}")

        yield advance
