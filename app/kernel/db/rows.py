"""Rows as values: dataclasses that are built from rows."""

from collections.abc import Hashable
from enum import EnumType
from functools import cache
from typing import Any, Self, get_args, get_type_hints

from sqlalchemy import Row


class RowValue:
    """Base of a dataclass that is built from a row with a column for each field."""

    __slots__ = ()

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Build from a row; converts the values of enums."""
        values = {}
        for name, enum in _fields(cls):  # type: ignore[arg-type] # mypy takes no class for hashable
            value = getattr(row, name)
            values[name] = value if enum is None or value is None else enum(value)
        return cls(**values)


@cache
def _fields(record: Hashable) -> list[tuple[str, EnumType | None]]:
    """Return the fields, each with its enum if its type is an enum, or an enum or None."""
    types = {name: next(iter(get_args(hint)), hint) for name, hint in get_type_hints(record).items()}
    return [(name, type_ if isinstance(type_, EnumType) else None) for name, type_ in types.items()]
