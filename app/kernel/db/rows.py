"""Rows as values: the columns that a dataclass is built from."""

from dataclasses import fields
from typing import Any

from sqlalchemy import Row


def columns_of(record: type[Any], row: Row[Any]) -> dict[str, Any]:
    """Return the columns that have the names of a dataclass's fields."""
    return {column.name: getattr(row, column.name) for column in fields(record)}
