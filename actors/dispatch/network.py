"""Access to the targets: egress rules, resolver, and the limit of connections per host.

A delivery waits for a free connection before the clock of its attempt starts. The cause of the wait is our limit and
not the receiver, so it must not count against `timeout_ms`: the attempt would fail unsent.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from actors.dispatch.base import UNCONDITIONAL, Permission
from actors.dispatch.egress import EgressGuard
from actors.dispatch.resolver import Resolver
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import NotSentError
from app.queue.executions.handover import Starter
from schema.states import EndpointType

if TYPE_CHECKING:
    from actors.dispatch.actor_link.server import ActorService

PATIENCE_SECONDS = 1.0
NO_STARTERS: Mapping[EndpointType, Starter] = {}
NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305
# Under steady traffic a kept connection would never be idle, and a change of its name in DNS never be followed.
MAX_AGE_SECONDS = 120.0


@dataclass(slots=True)
class _HostTurns:
    """Number of holders of a turn, and the waiting deliveries in order."""

    holders: int = 0
    waiting: dict[asyncio.Future[None], None] = field(default_factory=dict)


class PerHostLimit:
    """At most `limit` deliveries to one target at a time; first come, first served; belongs to one event loop.

    A delivery waits for `patience_seconds` at most, and never so long that its timeout would end after `stuck_seconds`,
    when its claim may be reclaimed. Waits are rare: a process claims no more for a host than it has connections, once a
    delivery has resolved the target.
    """

    def __init__(self, limit: int, stuck_seconds: float = math.inf, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._limit = limit
        self._patience_seconds = patience_seconds
        self._stuck_seconds = stuck_seconds
        self._targets: dict[Hashable, _HostTurns] = {}
        self._is_draining = False

    @property
    def targets_in_use(self) -> int:
        """Return the number of targets with turns that are held or waited for."""
        return len(self._targets)

    def drain(self) -> None:
        """End all waits with NotSentError, now and later: a stopping process must not wait for other deliveries."""
        self._is_draining = True
        for target in self._targets.values():
            for turn in target.waiting:
                if not turn.done():
                    turn.set_exception(NotSentError("the worker stops", DUE_NOW_MS))

    @asynccontextmanager
    async def take(
        self, key: Hashable, timeout_ms: float = 0.0, permission: Permission = UNCONDITIONAL
    ) -> AsyncIterator[None]:
        """Wait for a turn and hold it; raises NotSentError if none is free in time.

        After a wait `permission.begin` is called, which passes the turn on by a NotSentError.
        """
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _HostTurns()
        if target.holders < self._limit:
            target.holders += 1
        else:
            await self._wait(
                key, target, min(self._patience_seconds, self._stuck_seconds - timeout_ms / 1000), permission
            )
        try:
            yield
        finally:
            self._leave(key)

    def _leave(self, key: Hashable) -> None:
        """Pass a turn on, or give it back."""
        target = self._targets[key]
        target.holders -= 1
        while target.waiting and target.holders < self._limit:
            turn = next(iter(target.waiting))
            del target.waiting[turn]
            if not turn.done():
                target.holders += 1
                turn.set_result(None)
        if not target.holders:
            del self._targets[key]

    async def _wait(self, key: Hashable, target: _HostTurns, patience_seconds: float, permission: Permission) -> None:
        if self._is_draining:
            raise NotSentError("the worker stops")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        target.waiting[turn] = None
        try:
            async with asyncio.timeout(patience_seconds):
                await turn
            permission.begin()
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(key)  # the turn arrived at the moment of the error
            if isinstance(error, TimeoutError):
                # The execution keeps its place: it is claimed first once a connection is free.
                reason = f"no connection to its target was free for {patience_seconds:.0f} s"
                raise NotSentError(reason, is_noted=False) from None
            raise
        finally:
            target.waiting.pop(turn, None)


class Network(NamedTuple):
    """Access to the targets, shared by the dispatchers of a process."""

    guard: EgressGuard
    resolver: Resolver
    connections: int
    """Maximum number of connections of the process."""
    turns: PerHostLimit
    next_address_seconds: float = NEXT_ADDRESS_SECONDS
    """Time without an answer before the next address of a name is tried concurrently."""
    max_age_seconds: float = MAX_AGE_SECONDS
    """Maximum age of a connection that takes further deliveries; each connection draws up to a quarter less."""
    starters: Mapping[EndpointType, Starter] = {}
    """Starters of executions without a receiver."""
    actors: "ActorService | None" = None
    """Parts of the process for the server of actors; None if this process listens to none."""
