"""Interface of all transports: identity of a delivery, permission to send it, and the dispatcher."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from actors.dispatch.idle_pool import IDLE_SECONDS, IdlePool
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.kernel.formats import rfc3339

MAX_BODY_BYTES = 16_384
"""Stored length of an answer.

Dispatchers return SCRUB_MARGIN_BYTES more, because secrets are removed before the cut:
`scrubber.scrub(output, MAX_BODY_BYTES)`."""
SCRUB_MARGIN_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class History:
    """Earlier attempts of an execution, for transports that avoid duplicates."""

    longest_wait_seconds: float = 0.0
    """Longest wait of the retry policy."""
    uncertain_since: float | None = None
    """Start of the first attempt with an unknown outcome, on time.monotonic(); None if there is none."""
    channels: Sequence[Mapping[str, Any]] = ()
    """Result of the previous attempt by channel, if known."""


NO_HISTORY = History()


class Permission(Protocol):
    """Permission of one attempt to send, used on the event loop."""

    def may_send(self) -> bool:
        """Return whether the first byte may leave: this process holds the claim, and the attempt is not too late.

        `Progress.begin_sending` calls this right before the first byte. Another worker may be sending by then.
        """

    def begin(self) -> None:
        """Begin after a wait for a connection; raises NotSentError if the attempt must not start any longer."""

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Record that the attempt continues beyond its soft limit."""


class Unconditional:
    """Permission of a send that is no attempt of an execution."""

    def may_send(self) -> bool:
        return True

    def begin(self) -> None:
        pass

    def pass_soft_limit(self, limit_ms: int) -> None:
        pass


UNCONDITIONAL = Unconditional()


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
    """Removes the secrets of the spec from log lines of libraries."""
    permission: Permission = UNCONDITIONAL
    history: History = NO_HISTORY
    soft_limit_ms: int | None = None
    """Time until the call of `permission.pass_soft_limit`, with the same start as the time limit."""

    def as_metadata(self) -> dict[str, str]:
        """Return the identity as headers or fields, for transports with names."""
        return {
            "te-idempotency-key": self.execution_id,
            "te-job-id": self.job_id,
            "te-execution-id": self.execution_id,
            "te-attempt": str(self.attempt),
            "te-scheduled-at": rfc3339(self.scheduled_at, "milliseconds"),
            "traceparent": self.traceparent,
        } | ({"tracestate": self.tracestate} if self.tracestate else {})


class Dispatcher:
    """Sends one rendered endpoint spec and returns the output of its transport.

    `send` returns or raises within the spec's `timeout_ms`: DeliveryError after a failure, NotSentError if it sent
    nothing and may not send, and nothing else. Everything but the constructor belongs to one event loop.
    """

    _pool: IdlePool[Any] | None = None
    """Shared targets of the transport, if it does not close its idle connections by itself."""

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Deliver; the returned object is stored as the attempt's output."""
        raise NotImplementedError

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close targets that were idle for long."""
        if self._pool is not None:
            await self._pool.sweep(idle_seconds)

    async def close(self) -> None:
        """Close everything."""
        if self._pool is not None:
            await self._pool.close()
