"""Progress bar for long work, shown only on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli.console import open_console
from app.kernel.function_types import Counted


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Counted]:
    """Show a bar, or without `total` a count and the elapsed time; yields a function that adds finished items.

    The bar is drawn on standard error and removed at the end. A terminal without cursor movement (TERM=dumb) has none.
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
