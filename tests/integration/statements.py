"""Recorder of the statements that the API sends."""

import threading
from typing import Any


class Statements:
    """Record the statements of this thread; hints to workers are sent by another thread."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.in_autocommit: list[bool] = []
        self._thread = threading.get_ident()

    def clear(self) -> None:
        self.texts.clear()
        self.in_autocommit.clear()

    def __call__(self, _connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.in_autocommit.append(cursor.connection.autocommit)
            self.texts.append(" ".join(statement.split()))
