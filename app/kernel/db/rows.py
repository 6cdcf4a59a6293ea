"""Rows as values: dataclasses that are built from rows."""

from collections.abc import Hashable, Sequence
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
        given, (names, enums) = row._asdict(), _fields(cls)  # type: ignore[arg-type] # mypy takes no class for hashable
        values = {name: given[name] for name in names}
        for name, enum in enums:
            if values[name] is not None:
                values[name] = enum(values[name])
        return cls(**values)


@cache
def _fields(record: Hashable) -> tuple[Sequence[str], Sequence[tuple[str, EnumType]]]:
    """Return the names of the fields, and the fields whose type is an enum, or an enum or None."""
    types = {name: next(iter(get_args(hint)), hint) for name, hint in get_type_hints(record).items()}
    return [*types], [(name, type_) for name, type_ in types.items() if isinstance(type_, EnumType)]
