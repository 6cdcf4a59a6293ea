"""Look-ups: where endpoints behind open breakers lead by now, a few at a time."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from app.features.breakers.moves import Moves
from app.kernel.errors import UnavailableError

CHUNK_SECONDS = 0.1


class LookUps:
    """Has it looked up where those endpoints lead that may lead elsewhere; belongs to one thread.

    No execution is claimed for that: there may be as many endpoints as a host has, and what is due at others would wait
    behind all of them.
    """

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._waiting: Mapping[str, None] = {}  # in their order

    def go_on(
        self,
        behind: Mapping[str, str],
        flow_revision: int,
        catalog_revision: int,
        look_up: Callable[[str, int], None],
    ) -> bool:
        """Look some of them up, for a tenth of a second; returns whether there are more.

        By a revision that was told after they were found to have moved: an earlier one may not know of it yet. Raises
        UnavailableError; whom it was raised for comes last the next time.
        """
        due = deque(endpoint for endpoint in self._waiting if endpoint in behind)
        moved = self._moves.of(behind, flow_revision, catalog_revision)
        until = time.monotonic() + CHUNK_SECONDS
        try:
            while due and time.monotonic() < until:
                self._look_up(due, catalog_revision, look_up)
        finally:
            self._waiting = dict.fromkeys([*due, *moved])
        return bool(self._waiting)

    @staticmethod
    def _look_up(due: deque[str], catalog_revision: int, look_up: Callable[[str, int], None]) -> None:
        endpoint = due.popleft()
        try:
            look_up(endpoint, catalog_revision)
        except UnavailableError:
            due.append(endpoint)
            raise
