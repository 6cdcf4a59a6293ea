"""Stored texts: the few credentials of a table, for floods of texts that are none of them."""

import math
import threading

from sqlalchemy import TextClause

from app.kernel.db import Database
from app.kernel.function_types import Clock

READ_EVERY_SECONDS = 1.0


class StoredTexts:
    """Texts of a table, read at most once in READ_EVERY_SECONDS; safe to use from several threads."""

    def __init__(self, database: Database, query: TextClause, clock: Clock) -> None:
        """Take the query whose first column has all texts."""
        self._database = database
        self._query = query
        self._clock = clock
        self._texts: frozenset[str] = frozenset()
        self._good_until = -math.inf
        self._lock = threading.Lock()

    def latest(self) -> frozenset[str]:
        """Return the texts that are stored now, or were stored a second ago."""
        with self._lock:
            asked_at = self._clock()
            if self._good_until <= asked_at:
                self._texts = frozenset(row[0] for row in self._database.fetch(self._query))
                self._good_until = asked_at + READ_EVERY_SECONDS
            return self._texts

    def add(self, text: str) -> None:
        """Add a text that this process has stored, unless the next call of `latest` reads all texts."""
        with self._lock:
            if self._good_until > self._clock():
                self._texts |= {text}
