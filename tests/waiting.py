"""Waiting for a state that another process writes into the database."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HUNG_SECONDS = 30.0  # what takes longer than this would, for all we know, have taken for ever


def eventually(probe: Callable[[], T], *, timeout: float = 60.0, what: str = "the expected state") -> T:
    """Ask until `probe` gives something true; the database is the only signal other processes send us."""
    deadline = time.monotonic() + timeout
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {timeout:.0f} s; last: {found!r}")
        time.sleep(0.01)
    return found
