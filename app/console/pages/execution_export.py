"""Export of the executions of a filter: CSV, or lines of JSON as the API answers them, sent while they are read."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

from flask import Blueprint, Response

from app.console.access import guard
from app.console.access.permission import Permissions
from app.console.http.forms import query, refuse
from app.console.http.page_rendering import now
from app.console.pages.execution_query import filter_of_address
from app.console.views.execution_lines import csv_head, csv_lines
from app.kernel.db import Database, deadline
from app.kernel.db.paging import PageRequest
from app.kernel.errors import TimedOutError, UnavailableError
from app.kernel.formats import compact_json
from app.queue.executions.execution_model import Execution
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.web.executions.execution_schemas import ExecutionSchema
from app.web.services import services

log = logging.getLogger(__name__)

MOST = 100_000  # executions of one export
ROWS = 200  # executions of one read
SECONDS = 60.0  # of reads and of waits for the reader; later the connection ends, so that no part looks like the whole
FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
_PATIENCE = 0.1  # seconds of a scan for rare executions

running = threading.BoundedSemaphore(2)
"""Exports of a process at a time: each occupies one of its threads for as long as its reader takes."""


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Add the download."""
    permissions.declare("execution_export", "GET /executions")
    blueprint.add_url_rule("/executions/export", "execution_export", _export)


def _export() -> Response:
    kind, found = query().choice("format", [*FORMATS], "csv"), filter_of_address(now())
    for name, fault in found.faults.items():
        refuse(name, fault)
    created_before = found.wanted.created_before or now()
    lines = _Lines(services().database, replace(found.wanted, created_before=created_before), kind)
    answer = Response(lines, content_type=FORMATS[kind])
    answer.call_on_close(lines.close)
    answer.headers["Content-Disposition"] = f'attachment; filename="executions-{now():%Y-%m-%dT%H%M%SZ}.{kind}"'
    return answer


class _Lines:
    """Parts of an export; raises UnavailableError if other exports run."""

    def __init__(self, database: Database, wanted: ExecutionFilter, kind: str) -> None:
        if not running.acquire(blocking=False):
            raise UnavailableError("Other exports are running. Try again when they have ended.")
        self._database = database
        self._wanted = wanted
        self._kind = kind
        self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            running.release()

    def __iter__(self) -> Iterator[str]:
        deadline.begin(SECONDS)
        try:
            yield csv_head() if self._kind == "csv" else ""
            for executions in self._pages():
                yield csv_lines(executions) if self._kind == "csv" else _json_lines(executions)
        except TimedOutError:
            log.info("an export took longer than %.0f s; its file is incomplete: %s", SECONDS, self._wanted)
            raise
        finally:
            deadline.end()
            self.close()

    def _pages(self) -> Iterator[list[Execution]]:
        """Yield the executions in parts; each part holds a connection only while it is read."""
        left, after = MOST, None
        while left:
            deadline.check()
            request = PageRequest(min(ROWS, left), after)
            with guard.connection():
                read = page_of_executions(self._database, self._wanted, request, seconds=_PATIENCE)
            yield list(read.items)
            left, after = left - len(read.items), read.next
            if after is None:
                return


def _json_lines(executions: list[Execution]) -> str:
    shape = ExecutionSchema(exclude=("input",))
    return "".join(f"{compact_json(shape.dump(each))}\n" for each in executions)
