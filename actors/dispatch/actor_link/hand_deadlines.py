"""Deadlines of the messages in processes, on a shared timer: two timers for each message would cost too much."""

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.dispatch.actor_link.hand import Hand

APART_SECONDS = 0.005  # between two looks


class HandDeadlines:
    """Calls `come_due` of each watched hand at its `due_at`, or a little later; belongs to the event loop."""

    def __init__(self) -> None:
        self.hands = set["Hand"]()  # watched
        self.at = math.inf  # of the next look; a hand that is due before calls `hasten`
        self._timer: asyncio.TimerHandle | None = None

    def hasten(self, at: float) -> None:
        """Look at the hands at an instant of the loop, or before."""
        if at >= self.at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.at, self._timer = at, asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        self.at, self._timer = math.inf, None
        try:
            for hand in [hand for hand in self.hands if hand.due_at <= now]:
                hand.come_due()
        finally:  # after an error, too, the other hands have their deadlines
            if self.hands:
                self.hasten(max(now + APART_SECONDS, min(hand.due_at for hand in self.hands)))
