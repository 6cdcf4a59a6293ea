"""Lines of CSV for spreadsheets; pure."""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from app.kernel.formats import compact_json, rfc3339

# A spreadsheet would run a text of a receiver that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return a line of each row, with instants in UTC; objects and lists are JSON."""
    written = io.StringIO()
    csv.writer(written).writerows([_cell(value) for value in row] for row in rows)
    return written.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = compact_json(value) if isinstance(value, dict | list) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not isinstance(value, int) else text
