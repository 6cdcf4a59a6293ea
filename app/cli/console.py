"""Console: tables, lines and progress for a terminal, or plain lines for a file."""

import io
import json
import signal
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import TextIO

import click
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from app.kernel.formats import compact_json, rfc3339
from app.kernel.function_types import Counted

_NEVER_WRAPPED = 10_000  # columns of a file
_STYLES = {"green": ["SUCCESS", "ALIVE", "CLOSED"], "red": ["FAILED", "DEAD", "OPEN"], "yellow": ["RETRYING", "PAUSED"]}
_MIN_TEXT_WIDTH = 24  # columns for cells with spaces
MAX_SHOWN = 2_000  # characters of an input or an output

json_option = click.option("--json", "as_json", is_flag=True, help="print JSON with the fields of the API")


def open_console(out: TextIO | None = None) -> Console:
    """Return a console without markup; files get no escape codes, even with FORCE_COLOR."""
    # None if the caller has closed standard output.
    out = out or sys.stdout or io.StringIO()
    is_tty = out.isatty()
    width = None if is_tty else _NEVER_WRAPPED
    return Console(file=out, force_terminal=is_tty, width=width, highlight=False, markup=False, emoji=False)


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> Table:
    """Build a table; the columns with the headings in `right` are aligned to the right."""
    table = Table(box=None, show_edge=False, padding=(0, 0, 0, 2), header_style="dim")
    cells = list(rows)
    for number, heading in enumerate(header):
        # Only cells with spaces are folded, so that ids and instants can be copied in one piece.
        is_text = any(" " in row[number] for row in cells)
        least = _MIN_TEXT_WIDTH if is_text else max(cell_len(each[number]) for each in (header, *cells))
        justify: JustifyMethod = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=not is_text, min_width=least)
    for row in cells:
        table.add_row(*(_with_statuses(cell) for cell in row))
    return table


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()) -> None:
    print_whole(table_of(header, ([shown(cell) for cell in row] for row in rows), right=right))


def print_whole(shape: RenderableType) -> None:
    """Print without cropping: the terminal wraps long lines, and ids stay complete."""
    console = open_console()
    least = console.measure(shape, options=console.options.update_width(_NEVER_WRAPPED)).minimum
    console.width = max(console.width, least)
    console.print(shape, crop=False)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print a name and a value on each line, without None values."""
    given = {name: shown(value) for name, value in fields.items() if value is not None}
    width = max(map(len, given), default=0)
    for name, value in given.items():
        show_line(f"{name:<{width}}  {value}")


def show_line(text: str, style: str = "") -> None:
    """Print a line that the terminal wraps, so that it can be copied in one piece."""
    line = _with_statuses(plain(text))
    line.stylize(style)
    open_console().print(line, soft_wrap=True)


def print_json(value: object, *, lines: bool = False) -> None:
    """Print a value as JSON in ASCII: an indented document, or with `lines` a single line."""
    click.echo(json.dumps(value, indent=None if lines else 2, default=str))


def print_fields(fields: Mapping[str, object], *, as_json: bool) -> None:
    """Print fields as JSON, or a name and a value on each line."""
    if as_json:
        print_json(fields)
    else:
        show_fields(fields)


def print_result(value: object, *lines: str, as_json: bool) -> None:
    """Print the result of a command as JSON, or as lines."""
    if as_json:
        print_json(value)
    else:
        for line in lines:
            show_line(line)


def shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return rfc3339(value.replace(microsecond=value.microsecond // 1000 * 1000), "milliseconds")
    if isinstance(value, dict | list):
        text = compact_json(value)
        return plain(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)")
    return plain(str(value))


def plain(text: str) -> str:
    """Escape characters that a terminal would interpret, such as control characters and direction marks."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _with_statuses(cell: str) -> Text:
    text = Text(cell)
    for style, words in _STYLES.items():
        text.highlight_regex(rf"\b({'|'.join(words)})\b", style)
    return text


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


def polls(every: float) -> Iterator[None]:
    """Yield every `every` seconds until Ctrl-C; a second Ctrl-C raises KeyboardInterrupt during a poll.

    The first Ctrl-C only sets a flag: a KeyboardInterrupt inside a destructor or a callback would be lost.
    """
    stopping, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, stop)
    try:
        while not stopping.is_set():
            yield
            stopping.wait(every)
    finally:
        signal.signal(signal.SIGINT, before)
