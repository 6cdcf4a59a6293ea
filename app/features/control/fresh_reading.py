"""Readings that all requests of a process share for a few seconds, however many clients look at them."""

import threading
from time import monotonic
from typing import Generic, TypeVar

from app.kernel.function_types import Run

T = TypeVar("T")

FRESH_SECONDS = 2.0


class FreshReading(Generic[T]):
    """Value of a read function that is at most `seconds` old; one thread reads, and the rest wait for it.

    An error is raised to all who waited: each would wait as long for one of its own.
    """

    def __init__(self, read: Run[T], seconds: float = FRESH_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._value: T | None = None
        self._failed_at = float("-inf")
        self._error: Exception | None = None

    def get(self) -> T:
        """Return the value; raises the errors of the read function."""
        asked_at = monotonic()
        with self._lock:
            if self._error is not None and self._failed_at >= asked_at:
                raise self._error
            if self._value is None or monotonic() - self._read_at >= self._seconds:
                # From before the reading: the value is as old as its first statement.
                began = monotonic()
                try:
                    self._value = self._read()
                except Exception as error:
                    self._error, self._failed_at = error, monotonic()
                    raise
                self._read_at, self._error = began, None
            return self._value
