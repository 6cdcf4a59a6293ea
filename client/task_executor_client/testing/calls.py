"""Calls that other threads leave to the thread of the test."""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

Call = Callable[[], object]


class Calls:
    """Queue of calls, which the test's thread makes while it waits.

    So a handler of deliveries runs in the thread of the test: with its database connection and transaction.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._is_waiting = False

    def put(self, call: Call) -> None:
        """Leave a call; from any thread. It must not raise."""
        self._calls.put(call)

    def check_free(self) -> None:
        """Raise RuntimeError if a call that this queue makes calls it."""
        if self._is_waiting:
            raise RuntimeError("a handler of deliveries must not wait for deliveries or move the clock")

    def run_until(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Make the calls until a condition holds, which is checked after each.

        Args:
            is_over: Condition; another thread that makes it true leaves a call.
            seconds: Limit.

        Returns:
            Whether the condition holds.

        Raises:
            RuntimeError: A handler of a delivery waits itself.
        """
        self.check_free()
        self._is_waiting, end = True, time.monotonic() + seconds
        try:
            while not is_over():
                try:
                    self._calls.get(timeout=max(0.0, end - time.monotonic()))()
                except Empty:
                    return is_over()
            return True
        finally:
            self._is_waiting = False
