"""Share of each turn of the event loop that the reading of answers may take, however many receivers send at once."""

import asyncio
from collections import deque
from collections.abc import Callable

BYTES_PER_TURN = 131_072  # the costliest answer, with chunks of one byte, takes about 10 ms for as many
BYTES_AT_ONCE = 16_384


class LoopShare:
    """Hands out what may be read in this turn of the loop, and later turns, first come, first served."""

    def __init__(self) -> None:
        self._left = BYTES_PER_TURN
        self._line = deque[Callable[[], None]]()
        self._is_counting = False

    def take(self, wanted: int) -> int:
        """Take up to that many bytes of this turn; returns how many may be read now, possibly 0."""
        taken = min(wanted, self._left, BYTES_AT_ONCE)
        self._left -= taken
        self._count()
        return taken

    def line_up(self, go_on: Callable[[], None]) -> None:
        """Call this in a later turn, once those before it had theirs."""
        self._line.append(go_on)
        self._count()

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_counting = False
        self._left = BYTES_PER_TURN
        # Who lines up again meanwhile has to wait for the next turn.
        for _ in range(len(self._line)):
            if self._left <= 0:
                self._count()
                return
            self._line.popleft()()
