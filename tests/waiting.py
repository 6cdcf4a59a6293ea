"""Polling for a state that another process writes into the database."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HUNG_SECONDS = 30.0  # an operation that takes longer has hung


def eventually(probe: Callable[[], T], *, timeout: float = 60.0, what: str = "the expected state") -> T:
    """Poll until `probe` returns a true value; the database is the only signal from other processes."""
    deadline = time.monotonic() + timeout
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {timeout:.0f} s; last: {found!r}")
        time.sleep(0.01)
    return found
