"""Dispatcher: the interface of all transports, and the network that they share."""

import hashlib
import math
import random
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from actors.dispatch.egress import EgressGuard
from actors.dispatch.per_host import PerHostLimit
from actors.dispatch.permission import UNCONDITIONAL, Permission
from actors.dispatch.resolver import Resolver
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.kernel.formats import rfc3339
from app.kernel.tracing.context import TraceContext
from app.queue.executions.execution_model import Claim

MAX_BODY_BYTES = 16_384
"""Length to which a receiver's answer is kept. Dispatchers return SCRUB_MARGIN_BYTES more, so that the caller, who
knows the secrets, sees a short one whole, and enough of a long one, before it cuts:
`scrubber.scrub(output, MAX_BODY_BYTES)`."""
SCRUB_MARGIN_BYTES = 8_192

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


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a delivery, the same on each attempt except for the number; user templates cannot override it.

    The id of the execution is the idempotency key.
    """

    execution_id: str
    job_id: str
    attempt: int
    scheduled_at: datetime
    """In UTC."""
    traceparent: str
    tracestate: str = ""
    scrubber: Scrubber = NO_SECRETS
    """Knows the secrets in the spec: for what a library logs by itself."""
    permission: Permission = UNCONDITIONAL
    history: History = NO_HISTORY
    soft_limit_ms: int | None = None
    """Time after which `permission.pass_soft_limit` is called, counted as the time limit is."""

    @classmethod
    def of(
        cls,
        claim: Claim,
        scrubber: Scrubber,
        permission: Permission,
        history: History,
        *,
        soft_limit_ms: int | None = None,
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
            scheduled_at=claim.scheduled_at.astimezone(UTC),
            traceparent=traceparent,
            tracestate=tracestate,
            scrubber=scrubber,
            permission=permission,
            history=history,
            soft_limit_ms=soft_limit_ms,
        )

    def as_metadata(self) -> dict[str, str]:
        """Return it by the names that begin with `te-` on every transport that has room for names."""
        return {
            "te-idempotency-key": self.execution_id,
            "te-job-id": self.job_id,
            "te-execution-id": self.execution_id,
            "te-attempt": str(self.attempt),
            "te-scheduled-at": rfc3339(self.scheduled_at, "milliseconds"),
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
        # Where a process can never have more deliveries than one host may get, none has to wait.
        self._has_to_wait = connections > connections_per_host

    def turn(self, identity: Identity, timeout_ms: int, *target: Hashable) -> AbstractAsyncContextManager[None]:
        """Wait for a turn of a delivery at its target, and hold it; raises NotSentError when none comes in time."""
        if not self._has_to_wait:
            return nullcontext()
        patience_seconds = min(PATIENCE_SECONDS, self._stuck_seconds - timeout_ms / 1000)
        return self._turns.take(target, patience_seconds, identity.permission)

    def drain(self) -> None:
        """Let no delivery wait for a turn any more."""
        self._turns.drain()


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
