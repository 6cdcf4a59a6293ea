"""Lines of exported executions: CSV for spreadsheets; pure."""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from app.kernel.formats import rfc3339
from app.queue.executions.execution_model import Execution

_OWN = (
    *("execution_id", "job_id", "endpoint", "endpoint_version", "status", "created_at", "scheduled_at", "run_at"),
    *("started_at", "completed_at", "duration_ms", "attempt_count", "max_attempts", "queue", "priority"),
)
COLUMNS = (*_OWN, "limit_key", "worker_id", "error_type", "error_message", "may_have_been_delivered")
# A spreadsheet would run a text of a receiver that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_head() -> str:
    """Return the line with the names of the columns."""
    return _written([COLUMNS])


def csv_lines(executions: Iterable[Execution]) -> str:
    """Return a line of each execution, with instants in UTC."""
    return _written([_cell(value) for value in _values(each)] for each in executions)


def _values(execution: Execution) -> list[Any]:
    error = execution.last_error or {}
    own = [getattr(execution, name) for name in _OWN]
    named = [error.get(name) for name in ("type", "message", "may_have_been_delivered")]
    return [*own, execution.limit_key[1:], execution.worker_id, *named]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not isinstance(value, int) else text


def _written(rows: Iterable[Iterable[str]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()
