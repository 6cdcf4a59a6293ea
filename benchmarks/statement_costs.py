"""Costs of statements: each is run again by EXPLAIN (ANALYZE, BUFFERS), in a transaction that is rolled back."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
_REMOVED = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")

Statement = tuple[str, Any]
"""Text of a statement and its parameters: as the driver gets them, or a hot statement with `:name`."""


@dataclass(frozen=True, slots=True)
class StatementCost:
    """A statement, the rows of tables that it looked at, and the blocks that it read."""

    text: str
    rows: int
    blocks: int


def is_setting(text: str) -> bool:
    """Return whether a statement only changes a setting, before a chunk of a list; it reads nothing."""
    return text.lstrip().startswith("SELECT set_config")


def costs(connection: Any, statements: Sequence[Statement]) -> list[StatementCost]:
    """Run statements again on a connection of psycopg2, and return what each reads."""
    found = []
    with connection.cursor() as cursor:
        for given, parameters in statements:
            text = _for_driver(given, parameters)
            if is_setting(text):
                cursor.execute(text, parameters)
                continue
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", parameters)
            plan = cursor.fetchone()[0][0]["Plan"]
            blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            found.append(StatementCost(" ".join(text.split()), round(sum(_rows(plan))), blocks))
    connection.rollback()
    return found


def _for_driver(text: str, parameters: Any) -> str:
    if isinstance(parameters, Mapping) and any(name in parameters for name in _PARAMETER.findall(text)):
        return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))
    return text


def _rows(plan: Mapping[str, Any]) -> Iterator[float]:
    """Yield the rows that each scan of a table looked at."""
    if "Relation Name" in plan:
        yield plan["Actual Loops"] * (plan["Actual Rows"] + sum(plan.get(name, 0) for name in _REMOVED))
    for part in plan.get("Plans", ()):
        yield from _rows(part)
