"""Interface of all transports: identity of a delivery, permission to send it, and the dispatcher."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from actors.dispatch.idle_pool import IDLE_SECONDS, IdlePool
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.kernel.formats import rfc3339
from app.kernel.function_types import Written
from app.queue.executions.execution_model import FollowingJob

MAX_BODY_BYTES = 16_384
"""Stored length of an answer.

Dispatchers return SCRUB_MARGIN_BYTES more, because secrets are removed before the cut:
`scrubber.scrub(output, MAX_BODY_BYTES)`."""
SCRUB_MARGIN_BYTES = 8_192


class History(NamedTuple):
    """Earlier attempts of an execution, for transports that avoid duplicates."""

    longest_wait_seconds: float = 0.0
    """Longest wait of the retry policy."""
    uncertain_since: float | None = None
    """Start of the first attempt with an unknown outcome, on time.monotonic(); None if there is none."""
    channels: Sequence[Mapping[str, Any]] = ()
    """Result of the previous attempt by channel, if known."""
    lost: int = 0
    """Number of earlier attempts whose actor had begun, and which lost their process or worker."""
    has_lost_worker: bool = False
    """Whether an earlier attempt was lost with its worker; its actor may have begun."""
    last_error: Mapping[str, Any] = {}
    """Error with which an actor asked for this attempt."""


NO_HISTORY = History()


class Permission(Protocol):
    """Permission of one attempt to send, used on the event loop."""

    def may_send(self) -> bool:
        """Return whether the first byte may leave; `Progress.begin_sending` calls it right before the first byte.

        Returns:
            True if this process holds the claim, and the attempt is not too late. Otherwise another worker may be
            sending by now.
        """

    def begin(self) -> None:
        """Begin after a wait for a connection.

        Raises:
            NotSentError: The attempt must not start any longer.
        """

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Record that the attempt continues beyond its soft limit.

        Args:
            limit_ms: Soft limit in milliseconds.
        """

    def note_start(self) -> None:
        """Record that the actor begins, after an attempt that was lost with its worker."""

    def conclude_with(self, then: tuple[FollowingJob, ...], on_written: Written) -> None:
        """Create jobs in the transaction that completes the attempt.

        Args:
            then: Jobs to create.
            on_written: Called by another thread after the commit; false if the claim was lost.
        """


class Unconditional:
    """Permission of a send that is no attempt of an execution."""

    def may_send(self) -> bool:
        return True

    def begin(self) -> None:
        pass

    def pass_soft_limit(self, limit_ms: int) -> None:
        pass

    def note_start(self) -> None:
        pass

    def conclude_with(self, then: tuple[FollowingJob, ...], on_written: Written) -> None:
        pass


UNCONDITIONAL = Unconditional()


class Identity(NamedTuple):
    """Identity of a delivery, the same on each attempt except for the number; user templates cannot override it.

    The id of the execution is the idempotency key.

    Attributes:
        execution_id: Id of the execution.
        job_id: Id of the job.
        attempt: Number of the attempt, from 1.
        scheduled_at: Instant for which the execution was scheduled, in UTC.
        traceparent: W3C trace context of the attempt.
        tracestate: W3C trace state; empty for none.
        scrubber: Removes the secrets of the spec from log lines of libraries.
        permission: Permission to send, asked right before the first byte.
        history: Earlier attempts.
        soft_limit_ms: Milliseconds until the call of `permission.pass_soft_limit`, with the same start as the time
            limit; None for no soft limit.
    """

    execution_id: str
    job_id: str
    attempt: int
    scheduled_at: datetime
    traceparent: str
    tracestate: str = ""
    scrubber: Scrubber = NO_SECRETS
    permission: Permission = UNCONDITIONAL
    history: History = NO_HISTORY
    soft_limit_ms: int | None = None

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
    """Sender of one transport. Everything but the constructor belongs to one event loop.

    Example:
        class EchoDispatcher(Dispatcher):
            async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
                async def deliver(progress: Progress) -> dict[str, Any]:
                    reader, writer = await asyncio.open_connection(spec["host"], 7)
                    with closing(writer):
                        progress.begin_sending()
                        writer.write(f"{identity.execution_id}\\n".encode())
                        return {"echo": (await reader.readline()).decode()}

                return await bounded(spec["timeout_ms"], identity, explain, deliver)


        def explain(error: Exception, progress: Progress) -> Exception:
            if isinstance(error, TimeoutError):
                return progress.timed_out("no answer came")
            return DeliveryError("CONNECTION_ERROR", str(error), may_have_been_delivered=progress.is_sent)
    """

    max_text_bytes = MAX_BODY_BYTES
    """Stored length of each text of an output."""
    _pool: IdlePool[Any] | None = None
    """Shared targets of the transport, if it does not close its idle connections by itself."""

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Deliver once, within the spec's `timeout_ms` in milliseconds; concurrent deliveries share the dispatcher.

        Args:
            spec: Rendered spec of the endpoint, with its defaults and secrets.
            identity: Identity of the delivery and permission to send.

        Returns:
            JSON object that is stored as the attempt's output, as the transport's `output` describes it.

        Raises:
            DeliveryError: The attempt failed; its attributes decide about a retry.
            NotSentError: Nothing was sent, and nothing may be sent; the claim is released.
        """
        raise NotImplementedError

    def drain(self) -> None:
        """Begin nothing more: the process stops."""

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close idle targets; the delivery loop calls it regularly.

        Args:
            idle_seconds: Idle time in seconds after which a target is closed.
        """
        if self._pool is not None:
            await self._pool.sweep(idle_seconds)

    async def close(self) -> None:
        """Close all targets, after the last delivery."""
        if self._pool is not None:
            await self._pool.close()
