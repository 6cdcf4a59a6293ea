"""Polling for a state that another process writes into the database."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HUNG_SECONDS = 30.0  # an operation that takes longer has hung
_SHORTEST_PAUSE, _LONGEST_PAUSE, _SHARE_OF_WAIT = 0.01, 0.05, 0.1  # between two probes


def eventually(probe: Callable[[], T], *, timeout: float = 60.0, what: str = "the expected state") -> T:
    """Poll until `probe` returns a true value; the database is the only signal from other processes.

    A long wait polls less often: every 10 ms, a probe of the database would take a fifth of a core.
    """
    began = time.monotonic()
    while not (found := probe()):
        waited = time.monotonic() - began
        if waited > timeout:
            raise AssertionError(f"{what} did not come within {timeout:.0f} s; last: {found!r}")
        time.sleep(min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, waited * _SHARE_OF_WAIT)))
    return found
