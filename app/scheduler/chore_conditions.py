"""Conditions of chores: one statement for all chores that rarely have work, in place of a statement of each."""

import math
import threading
import time
from collections.abc import Sequence
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.sql import HotStatement, NamedStatement
from app.scheduler.chore import Chore, Counts

# Chores with conditions begin one after the other, within the first part of each second.
VALID_SECONDS = 0.25


class Conditions:
    """Conditions of the chores of a process, by the name of the chore; thread-safe."""

    def __init__(
        self, database: Database, statements: dict[str, NamedStatement], *, valid_seconds: float = VALID_SECONDS
    ) -> None:
        self._database = database
        self._names = tuple(statements)
        columns = (
            f"(SELECT 1 FROM ({each.text}) AS found LIMIT 1) AS condition_{number}"  # noqa: S608 - our statements
            for number, each in enumerate(statements.values())
        )
        self.statement = HotStatement("chores.conditions", f"SELECT {', '.join(columns)}")
        self._valid_seconds = valid_seconds
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._found: dict[str, object] = {}
        self._begun = set[str]()

    def run(self, chore: Chore) -> Counts:
        """Run a chore if its condition holds; run it once in any case, so that its counters begin at zero."""
        return chore.run() if self._holds(chore.name) else Counts()

    def _holds(self, name: str) -> bool:
        """Return whether the condition of a chore held within `valid_seconds`, or could not be read.

        In that case the chores run, so one table that is locked or missing stops only the chore that needs it; a lock
        delays the others by the timeout of a statement.
        """
        with self._lock:
            if name not in self._begun:
                self._begun.add(name)
                return True
            if time.monotonic() >= self._read_at + self._valid_seconds:
                try:
                    (row,) = self._database.fetch(self.statement)
                    self._found = dict(zip(self._names, row, strict=True))
                except (SQLAlchemyError, UnavailableError):  # logged by the database, or by each chore
                    self._found = dict.fromkeys(self._names, True)
                self._read_at = time.monotonic()
            return self._found[name] is not None


def with_conditions(database: Database, plan: Sequence[Chore]) -> list[Chore]:
    """Return the chores of a plan, first the chores with a condition, which run only while it holds."""
    statements = {chore.name: chore.condition for chore in plan if chore.condition is not None}
    conditions = Conditions(database, statements)
    conditional = [chore._replace(run=partial(conditions.run, chore)) for chore in plan if chore.name in statements]
    return [*conditional, *(chore for chore in plan if chore.name not in statements)]
