"""Recording of the statements that the API sends."""

import threading
from typing import Any


class Statements:
    """Records what this thread sends to the database; the hints to workers have a thread of their own."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.in_autocommit: list[bool] = []
        self._thread = threading.get_ident()

    def clear(self) -> None:
        """Forget what was sent so far."""
        self.texts.clear()
        self.in_autocommit.clear()

    def __call__(self, _connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.in_autocommit.append(cursor.connection.autocommit)
            self.texts.append(" ".join(statement.split()))
