"""Export of a list: CSV, or lines of JSON as the API answers them, sent while the rows of the filter are read."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flask import Blueprint, Response, request
from marshmallow import Schema

from app.console.access import guard
from app.console.access.permission import Permissions
from app.console.http import closed_contents
from app.console.http.forms import query
from app.console.http.page_rendering import now, to
from app.console.views.csv_text import csv_text
from app.console.views.row_without_contents import without_contents
from app.kernel.db import deadline
from app.kernel.db.paging import PageRequest, ReadPage
from app.kernel.errors import TimedOutError, UnavailableError
from app.kernel.formats import compact_json
from app.kernel.function_types import Run

log = logging.getLogger(__name__)

MOST = 100_000  # rows of one export
ROWS = 200  # rows of one read
SECONDS = 60.0  # of reads and of waits for the reader; later the connection ends, so that no part looks like the whole
FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}

running = threading.BoundedSemaphore(2)
"""Exports of a process at a time: each occupies one of its threads for as long as its reader takes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExport(Generic[T]):
    """Download of a list.

    Attributes:
        name: Plural noun of the rows, which begins the name of the file.
        path: Path of the list below /console.
        reads: API operation of the list.
        prepare: Reads the filter of the address, and returns the read of a page; raises InvalidRequestError.
        shape: Schema of a row of the API.
        columns: Names of the columns of `values`; by default the fields of the schema without inputs, which are in
            lines of JSON only.
        values: Values of a row in these columns.
    """

    name: str
    path: str
    reads: str
    prepare: Run[ReadPage[T]]
    shape: Schema
    columns: Sequence[str] = ()
    values: Callable[[T], Sequence[Any]] | None = None

    @property
    def is_closed(self) -> bool:
        """Return whether rows are exported without inputs and answers; the audit log has none."""
        return closed_contents.are_closed() and self.name != "audit"

    @property
    def route(self) -> str:
        return _route(self.name)

    @property
    def head(self) -> Sequence[str]:
        """Return the names of the columns."""
        fields = self.shape.fields.items()
        return self.columns or [field.data_key or name for name, field in fields if name != "input"]

    def register(self, blueprint: Blueprint, permissions: Permissions) -> None:
        permissions.declare(self.route, self.reads)
        blueprint.add_url_rule(f"{self.path}/export", self.route, self._serve)

    def text(self, items: Sequence[T], kind: str, *, is_closed: bool) -> str:
        """Write rows in a format, without inputs and answers where these are closed."""
        shown = [self.shape.dump(each) for each in items] if kind == "ndjson" or self.values is None else []
        if is_closed:
            shown = [without_contents(each) for each in shown]
        if kind == "ndjson":
            return "".join(f"{compact_json(each)}\n" for each in shown)
        if self.values is None:
            return csv_text([each.get(name) for name in self.head] for each in shown)
        return csv_text(map(self.values, items))

    def _serve(self) -> Response:
        kind = query().choice("format", [*FORMATS], "csv")
        lines = _Lines(self, self.prepare(), kind, request.full_path)
        answer = Response(lines, content_type=FORMATS[kind])
        answer.call_on_close(lines.close)
        answer.headers["Content-Disposition"] = f'attachment; filename="{self.name}-{now():%Y-%m-%dT%H%M%SZ}.{kind}"'
        return answer


def exports(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of the export of a filter, by format."""
    return {kind: to(_route(name), format=kind, **given) for kind in FORMATS}


def _route(name: str) -> str:
    return f"{name}_export"


class _Lines(Generic[T]):
    """Parts of an export; raises UnavailableError if other exports run."""

    def __init__(self, export: ListExport[T], read: ReadPage[T], kind: str, address: str) -> None:
        if not running.acquire(blocking=False):
            raise UnavailableError("Other exports are running. Try again when they have ended.")
        self._export = export
        self._read = read
        self._kind = kind
        self._address = address
        self._is_closed = export.is_closed
        self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            running.release()

    def __iter__(self) -> Iterator[str]:
        deadline.begin(SECONDS)
        try:
            yield csv_text([self._export.head]) if self._kind == "csv" else ""
            for items in self._pages():
                yield self._export.text(items, self._kind, is_closed=self._is_closed)
        except TimedOutError:
            log.info("an export took longer than %.0f s; its file is incomplete: %s", SECONDS, self._address)
            raise
        finally:
            deadline.end()
            self.close()

    def _pages(self) -> Iterator[Sequence[T]]:
        """Yield the rows in parts; each part holds a connection only while it is read."""
        left, after = MOST, None
        while left:
            deadline.check()
            with guard.connection():
                read = self._read(PageRequest(min(ROWS, left), after))
            yield read.items
            left, after = left - len(read.items), read.next
            if after is None:
                return
