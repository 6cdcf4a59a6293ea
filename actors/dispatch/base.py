"""Dispatcher: the interface of all transports, and the network that they share."""

import hashlib
import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, Self

from actors.dispatch.egress import EgressGuard
from actors.dispatch.per_host import FairLimit, PerHostLimit, at_any_time
from actors.dispatch.resolver import Resolver
from app.catalog.scrub import Scrubber
from app.kernel.formats import rfc3339
from app.kernel.tracing.context import TraceContext
from app.queue.executions.execution_model import Claim

MAX_BODY_BYTES = 16_384
"""Length to which a receiver's answer is kept. Dispatchers return SCRUB_MARGIN_BYTES more, so that the caller, who
knows the secrets, sees a short one whole, and enough of a long one, before it cuts:
`scrubber.scrub(output, MAX_BODY_BYTES)`."""
SCRUB_MARGIN_BYTES = 8_192
NO_SECRETS = Scrubber(())

# How long a delivery waits for a turn.
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class History:
    """What a transport that remembers deliveries has to know of the other attempts of an execution."""

    longest_wait_seconds: float = 0.0
    """The longest wait of the retry policy."""
    uncertain_since: float | None = None
    """When the first attempt began that may have been delivered, on time.monotonic(); None when there is none."""
    channels: Sequence[Mapping[str, Any]] = ()
    """What became of a message in each of its channels by the attempt before, where that is known."""


NO_HISTORY = History()


class SoftLimit(NamedTuple):
    """What to call when a delivery has taken so many milliseconds, of those that its time limit counts."""

    after_ms: int
    on_passed: Callable[[], None]


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a delivery, the same on each attempt except for the number; user templates cannot override it."""

    execution_id: str
    job_id: str
    attempt: int
    scheduled_at: datetime
    traceparent: str
    tracestate: str = ""
    scrubber: Scrubber = NO_SECRETS
    """Knows the secrets in the spec: for what a library logs by itself."""
    may_send: Callable[[], bool] = _always
    """Whether this process still holds the claim of the attempt, and it is not too late.

    Each transport asks right before the first byte, by way of `Progress.begin_sending`: another worker may be sending
    it by now."""
    history: History = NO_HISTORY
    soft_limit: SoftLimit | None = None
    begin: Callable[[], None] = at_any_time
    """Called when it has waited for a connection and has one; raises NotSentError when it may not start any more."""

    @classmethod
    def of(
        cls,
        claim: Claim,
        scrubber: Scrubber,
        may_send: Callable[[], bool],
        history: History,
        soft_limit: SoftLimit | None = None,
        *,
        begin: Callable[[], None] = at_any_time,
        trace: TraceContext | None = None,
    ) -> Self:
        """Return the identity of a claimed attempt.

        `trace` is the span that is recorded of it. Without one its trace is that of the request which created its job,
        if that was in one, and nothing is added to it; else it is the execution's, and the span the attempt's.
        """
        context = trace
        if context is None and claim.trace_context is not None:
            context = TraceContext.stored(claim.trace_context)
        if context is None or context.is_link:
            own = hashlib.blake2b(claim.execution_id.encode(), digest_size=16).hexdigest()
            traceparent, tracestate = f"00-{own}-{random.getrandbits(64):016x}-01", ""
        else:
            traceparent, tracestate, _ = context
        return cls(
            execution_id=claim.execution_id,
            job_id=claim.job_id,
            attempt=claim.attempt,
            scheduled_at=claim.scheduled_at,
            traceparent=traceparent,
            tracestate=tracestate,
            scrubber=scrubber,
            may_send=may_send,
            history=history,
            soft_limit=soft_limit,
            begin=begin,
        )

    @property
    def idempotency_key(self) -> str:
        """The key that stays the same on every attempt."""
        return self.execution_id

    @property
    def scheduled_at_text(self) -> str:
        """The scheduled time in RFC 3339, UTC, with milliseconds."""
        return rfc3339(self.scheduled_at.astimezone(UTC), "milliseconds")

    def as_metadata(self) -> dict[str, str]:
        """Return it by the names that begin with `te-` on every transport that has room for names."""
        return {
            "te-idempotency-key": self.idempotency_key,
            "te-job-id": self.job_id,
            "te-execution-id": self.execution_id,
            "te-attempt": str(self.attempt),
            "te-scheduled-at": self.scheduled_at_text,
            "traceparent": self.traceparent,
        } | ({"tracestate": self.tracestate} if self.tracestate else {})


class Network:
    """Access to the targets, shared by the dispatchers of a process: egress rules, resolver, connection limits.

    A claim may be taken back `stuck_seconds` after it was made. A delivery waits for one of the connections to its host
    for PATIENCE_SECONDS at most, and never for so long that too little is left for its own timeout: no more is claimed
    for a host than it has connections, so who waits here was claimed before anybody knew that it leads there.
    """

    def __init__(
        self,
        guard: EgressGuard,
        resolver: Resolver,
        connections: int,
        connections_per_host: int,
        stuck_seconds: float = math.inf,
    ) -> None:
        self.guard = guard
        self.resolver = resolver
        self.connections = connections
        self.connections_per_host = connections_per_host
        self._stuck_seconds = stuck_seconds
        self._turns = PerHostLimit(connections_per_host)
        self._limits: list[PerHostLimit] = [self._turns]
        # Where a process can never have more deliveries than one host may get, none has to wait.
        self._has_to_wait = connections > connections_per_host

    def turn(self, identity: Identity, timeout_ms: int, *target: Hashable) -> AbstractAsyncContextManager[None]:
        """Wait for a turn of a delivery at its target, and hold it; raises NotSentError when none comes in time."""
        if not self._has_to_wait:
            return nullcontext()
        return self._turns.take(target, self.patience(timeout_ms), identity.begin)

    def patience(self, timeout_ms: int, most_seconds: float | None = None) -> float:
        """Return for how many seconds a delivery may wait before its own time begins: PATIENCE_SECONDS at most."""
        most = PATIENCE_SECONDS if most_seconds is None else most_seconds
        return min(most, self._stuck_seconds - timeout_ms / 1000)

    def limited(self, limit: int, in_all: int) -> FairLimit:
        """Return a limit of what a transport does at a time, for which nobody waits once this is drained."""
        made = FairLimit(limit, in_all)
        self._limits.append(made)
        return made

    def drain(self) -> None:
        """Let no delivery wait for a turn any more."""
        for limit in self._limits:
            limit.drain()


class Dispatcher(Protocol):
    """Sends one rendered endpoint spec and returns the output of its transport.

    `send` raises `DeliveryError` (app.queue.executions.execution_model) when it failed,
    NotSentError when it sent nothing and may not,
    and nothing else. It returns or raises within the spec's `timeout_ms`. `close` releases connections; `sweep` closes
    those to targets that are no longer used.
    """

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Deliver; the returned object is stored as the attempt's output."""

    async def sweep(self) -> None:
        """Close connections that have been idle for long."""

    async def close(self) -> None:
        """Close everything."""
