"""Options of commands, parsed by the API's fields, and page-wise reading of lists."""

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
from marshmallow import ValidationError, fields, validate

from app.catalog.endpoints.live_settings_fields import queue_field
from app.cli.console import print_json, show_table
from app.kernel.db.paging import PageRequest, ReadPage
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import duration_ms, marshmallow_faults
from app.kernel.function_types import AnyFunction
from app.schedule.interval import LONGEST_MS
from app.web.http.body import parse_json
from app.web.http.pagination import MAX_LIMIT
from app.web.http.request_fields import Instant
from app.web.jobs.labels import LabelSelector

T = TypeVar("T")
F = TypeVar("F", bound=AnyFunction)
MAX_LISTED = 10_000
AGO = "30m, 2h, 7d ago, or a time with offset"
_MAX_TEXT = 200


class EnumChoice(click.Choice[str]):
    """Member of an enumeration, by its value in any case."""

    def __init__(self, members: type[StrEnum]) -> None:
        super().__init__([each.value for each in members], case_sensitive=False)
        self._members = members

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StrEnum:
        return self._members(super().convert(value, param, ctx))


class Value(click.ParamType[Any]):
    def __init__(self, name: str, field: fields.Field[Any]) -> None:
        self.name = name
        self._field = field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._field.deserialize(value)
        except ValidationError as error:
            self.fail(" ".join(fault for _, fault in marshmallow_faults(error.messages)), param, ctx)


class Number(click.FloatRange):
    """Number between two bounds; click takes `nan` for any range, and `inf` for a range without a maximum."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class InstantOrAge(click.ParamType[datetime]):
    """Instant, absolute or as an age."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse an age such as 2h or 30m, or an instant with an offset."""
        if isinstance(value, datetime):
            return value
        milliseconds = duration_ms(value)
        if milliseconds is not None and milliseconds < 1e13:
            return datetime.now(UTC) - timedelta(milliseconds=milliseconds)
        try:
            return Instant().deserialize(value)  # type: ignore[no-any-return]
        except ValidationError:
            self.fail("use an age (30m, 2h, 7d) or a time with offset (2030-01-31T09:00:00Z)", param, ctx)


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse 500ms, 10s, 5m, 2h or 1d."""
        if isinstance(value, timedelta):
            return value
        milliseconds = duration_ms(value)
        if milliseconds is None or milliseconds > LONGEST_MS:
            self.fail("use a number with a unit, such as 500ms, 10s, 5m, 2h or 30d, up to 366d", param, ctx)
        return timedelta(milliseconds=milliseconds)


TEXT = Value("text", fields.String(validate=validate.Length(1, _MAX_TEXT)))
QUEUE = Value("queue", queue_field())
LABELS = Value("key=value,…", LabelSelector())


def read_json(text: str) -> Any:
    """Parse an option with JSON, or with @FILE that contains JSON; raises click.BadParameter."""
    try:
        return parse_json(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{text[1:]} is not UTF-8") from None
    except InvalidRequestError as error:
        raise click.BadParameter(error.message.replace("The body", "it", 1)) from None


limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MAX_LISTED),
    default=20,
    show_default=True,
    help="number of items, newest first",
)


def created_options(command: F) -> F:
    """Declare the options --created-after, --created-before and --limit."""
    command = limit_option(command)
    for name in ("--created-before", "--created-after"):
        command = click.option(name, type=InstantOrAge(), help=AGO)(command)
    return command


def gather(read_page: ReadPage[T], limit: int) -> tuple[list[T], bool]:
    """Read pages up to `limit` items; return the items and whether more exist."""
    found, after = list[T](), None
    while True:
        page = read_page(PageRequest(min(limit - len(found), MAX_LIMIT), after))
        found += page.items
        after = page.next
        if after is None or len(found) >= limit:
            return found, after is not None


def show_list(
    items: Sequence[object],
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    is_more: bool,
    as_json: bool,
    right: Collection[str] = (),
) -> None:
    """Print a list: `items` as JSON, or `rows` as a table; reports on standard error if the list is incomplete."""
    if as_json:
        print_json({"items": items, "more": is_more})
        return
    show_table(header, rows, right=right)
    if is_more:
        click.echo("there are more: raise --limit, or add filters", err=True)
