"""Limit of connections per host: a delivery waits for a free one before the clock of its attempt starts.

The wait is caused by our limit and not by the receiver, so it must not count against `timeout_ms`: the attempt would
fail without having been sent.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import NotSentError


def at_any_time() -> None:
    """Begin whenever the turn comes."""


@dataclass(slots=True)
class _Target:
    """How many hold a turn, and who waits for one, in order."""

    holders: int = 0
    waiting: OrderedDict[asyncio.Future[None], None] = field(default_factory=OrderedDict)


class PerHostLimit:
    """At most `limit` deliveries to one target at a time; first come, first served; belongs to one event loop.

    Whoever waits for longer than its patience gives up with NotSentError, and so does everybody once `drain` was
    called: the claim of a waiting delivery could be taken back, and a process that ends should not wait for others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._targets: dict[Hashable, _Target] = {}
        self._is_draining = False

    @property
    def targets_in_use(self) -> int:
        """Return the number of targets that deliveries hold or wait for."""
        return len(self._targets)

    def drain(self) -> None:
        """Let nobody wait any more."""
        self._is_draining = True
        for target in self._targets.values():
            for turn in target.waiting:
                _give_up(turn, NotSentError("the worker stops", DUE_NOW_MS))

    def take(
        self, key: Hashable, patience_seconds: float = math.inf, on_turn: Callable[[], None] = at_any_time
    ) -> "_Turn":
        """Wait for a turn and hold it; a target that nobody holds or waits for is forgotten.

        Where it had to wait, `on_turn` is called when its turn comes: it passes the turn on by a NotSentError.
        """
        return _Turn(self, key, patience_seconds, on_turn)

    async def enter(self, key: Hashable, patience_seconds: float, on_turn: Callable[[], None]) -> None:
        """Begin to hold a turn; whoever does calls `leave`."""
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _Target()
        if self._has_room(target):
            self._count(target, 1)
        else:
            await self._wait(key, target, patience_seconds, on_turn)

    def leave(self, key: Hashable) -> None:
        """Pass a turn on, or give it back."""
        target = self._targets[key]
        self._count(target, -1)
        self._pass_on(key, target)
        if not target.holders:
            del self._targets[key]

    def _has_room(self, target: _Target) -> bool:
        return target.holders < self._limit

    def _count(self, target: _Target, change: int) -> None:
        target.holders += change

    def _pass_on(self, _key: Hashable, target: _Target) -> None:
        """Let somebody begin in the room that there is now."""
        self._admit(target)

    def _admit(self, target: _Target) -> bool:
        """Let the next one who waits for a target begin, if there is room."""
        while target.waiting and self._has_room(target):
            turn, _ = target.waiting.popitem(last=False)
            if not turn.done():
                self._count(target, 1)
                turn.set_result(None)
                return True
        return False

    async def _wait(self, key: Hashable, target: _Target, patience_seconds: float, on_turn: Callable[[], None]) -> None:
        """Wait until somebody who leaves passes the turn on."""
        if self._is_draining:
            raise NotSentError("the worker stops")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        target.waiting[turn] = None
        reason = f"no connection to its target was free for {patience_seconds:.0f} s"
        timer = None
        if patience_seconds < math.inf:
            # It keeps its place: once there is a connection it is the first of its lane to be claimed.
            timer = loop.call_later(max(0.0, patience_seconds), _give_up, turn, NotSentError(reason, is_noted=False))
        try:
            await turn
            on_turn()
        except (asyncio.CancelledError, NotSentError):
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(key)  # it was passed on to us, in the same moment or too late
            raise
        finally:
            target.waiting.pop(turn, None)
            if timer is not None:
                timer.cancel()


class FairLimit(PerHostLimit):
    """At most `limit` at one target, and `in_all` at all of them beside the first of each: that one always may begin.

    So whoever hangs, and be it many targets, keeps no other one from going on. Those that want more take turns.
    """

    def __init__(self, limit: int, in_all: int) -> None:
        super().__init__(limit)
        self._in_all = in_all
        self._beside = 0

    def _has_room(self, target: _Target) -> bool:
        return not target.holders or (super()._has_room(target) and self._beside < self._in_all)

    def _count(self, target: _Target, change: int) -> None:
        self._beside -= max(0, target.holders - 1)
        super()._count(target, change)
        self._beside += max(0, target.holders - 1)

    def _pass_on(self, key: Hashable, target: _Target) -> None:
        if target.holders:
            # It goes behind the others, of which the first that waits is next.
            self._targets[key] = self._targets.pop(key)
        elif self._admit(target):
            return
        for other in self._targets.values():
            if self._admit(other):
                return


@dataclass(frozen=True, slots=True)
class _Turn:
    """The turn of one delivery, as a context manager."""

    limit: PerHostLimit
    key: Hashable
    patience_seconds: float
    on_turn: Callable[[], None]

    async def __aenter__(self) -> None:
        await self.limit.enter(self.key, self.patience_seconds, self.on_turn)

    async def __aexit__(self, *_exception: object) -> None:
        self.limit.leave(self.key)


def _give_up(turn: "asyncio.Future[None]", error: NotSentError) -> None:
    if not turn.done():
        turn.set_exception(error)
