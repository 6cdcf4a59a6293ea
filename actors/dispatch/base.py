"""Dispatcher: the interface of all transports, and the network that they share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from actors.dispatch.egress import EgressGuard
from actors.dispatch.resolver import Resolver
from app.catalog.scrub import Scrubber
from app.formats import rfc3339

MAX_BODY_BYTES = 16_384
"""Length to which a receiver's answer is kept. Dispatchers return SCRUB_MARGIN_BYTES more, so that the caller, who
knows the secrets, sees each one whole before it cuts: `scrubber.scrub(output, MAX_BODY_BYTES)`."""
SCRUB_MARGIN_BYTES = 8_192
NO_SECRETS = Scrubber(())


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a delivery, the same on each attempt except for the number; user templates cannot override it."""

    execution_id: str
    job_id: str
    attempt: int
    scheduled_at: datetime
    traceparent: str
    scrubber: Scrubber = NO_SECRETS
    """Knows the secrets in the spec: for what a library logs by itself."""

    @property
    def idempotency_key(self) -> str:
        """The key that stays the same on every attempt."""
        return self.execution_id

    @property
    def scheduled_at_text(self) -> str:
        """The scheduled time in RFC 3339, UTC, with milliseconds."""
        return rfc3339(self.scheduled_at.astimezone(UTC), "milliseconds")


@dataclass(frozen=True, slots=True)
class Network:
    """Access to the targets, shared by the dispatchers of a process: egress rules, resolver, connection limits."""

    guard: EgressGuard
    resolver: Resolver
    connections: int
    connections_per_host: int


class Dispatcher(Protocol):
    """Sends one rendered endpoint spec and returns the output of its transport.

    `send` raises `app.executions.model.DeliveryError` and nothing else, and returns or raises within the spec's
    `timeout_ms`. `close` releases connections; `sweep` closes those to targets that are no longer used.
    """

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Deliver; the returned object is stored as the attempt's output."""

    async def sweep(self) -> None:
        """Close connections that have been idle for long."""

    async def close(self) -> None:
        """Close everything."""
