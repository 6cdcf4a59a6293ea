"""Limit of connections per host: a delivery waits for a free one before the clock of its attempt starts.

The wait is caused by our limit and not by the receiver, so it must not count against `timeout_ms`: the attempt would
fail without having been sent.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from actors.dispatch.permission import UNCONDITIONAL, Permission
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import NotSentError


@dataclass(slots=True)
class _HostTurns:
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
        self._targets: dict[Hashable, _HostTurns] = {}
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

    @asynccontextmanager
    async def take(
        self, key: Hashable, patience_seconds: float = math.inf, permission: Permission = UNCONDITIONAL
    ) -> AsyncIterator[None]:
        """Wait for a turn and hold it; a target that nobody holds or waits for is forgotten.

        After a wait `permission.begin` is called, which passes the turn on by a NotSentError.
        """
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _HostTurns()
        if target.holders < self._limit:
            target.holders += 1
        else:
            await self._wait(key, target, patience_seconds, permission)
        try:
            yield
        finally:
            self._leave(key)

    def _leave(self, key: Hashable) -> None:
        """Pass a turn on, or give it back."""
        target = self._targets[key]
        target.holders -= 1
        while target.waiting and target.holders < self._limit:
            turn, _ = target.waiting.popitem(last=False)
            if not turn.done():
                target.holders += 1
                turn.set_result(None)
        if not target.holders:
            del self._targets[key]

    async def _wait(self, key: Hashable, target: _HostTurns, patience_seconds: float, permission: Permission) -> None:
        """Wait until somebody who leaves passes the turn on."""
        if self._is_draining:
            raise NotSentError("the worker stops")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        target.waiting[turn] = None
        reason = f"no connection to its target was free for {patience_seconds:.0f} s"
        timer = None
        if patience_seconds < math.inf:
            # It keeps its place: once there is a connection it is the first of its partition to be claimed.
            timer = loop.call_later(max(0.0, patience_seconds), _give_up, turn, NotSentError(reason, is_noted=False))
        try:
            await turn
            permission.begin()
        except (asyncio.CancelledError, NotSentError):
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(key)  # it was passed on to us, in the same moment or too late
            raise
        finally:
            target.waiting.pop(turn, None)
            if timer is not None:
                timer.cancel()


def _give_up(turn: "asyncio.Future[None]", error: NotSentError) -> None:
    if not turn.done():
        turn.set_exception(error)
