"""Helpers to run a dispatcher in a test: a rendered spec, an identity, an event loop as in a worker."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
import uvloop

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher, Identity, Unconditional
from actors.dispatch.egress import EgressGuard
from actors.dispatch.network import MAX_AGE_SECONDS, PATIENCE_SECONDS, Network, PerHostLimit
from actors.dispatch.resolver import Resolver
from app.catalog.specs import compile_spec
from app.queue.executions.execution_model import DeliveryError
from schema.states import EndpointType

T = TypeVar("T")

OPEN = EgressGuard(public_only=False, allow=[], deny=[])
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Withdrawn(Unconditional):
    """Permission of an attempt that has lost its claim."""

    def may_send(self) -> bool:
        return False


def identity(execution_id: str = "exec_1", attempt: int = 1) -> Identity:
    return Identity(execution_id, "job_1", attempt, datetime(2026, 3, 15, 10, 0, 0, 123456, UTC), TRACEPARENT)


def rendered(type_: EndpointType, spec: dict[str, Any]) -> dict[str, Any]:
    return compile_spec(type_, spec).render({}, {}, {})


@dataclass(frozen=True)
class Opening:
    """A dispatcher for a test, and the limits of its network."""

    open_: Callable[[Network], Dispatcher]
    guard: EgressGuard = OPEN
    connections: int = 100
    per_host: int = 10
    patience_seconds: float = PATIENCE_SECONDS
    max_age_seconds: float = MAX_AGE_SECONDS

    @contextmanager
    def network(self) -> Iterator[Network]:
        resolver = Resolver()
        try:
            limit = PerHostLimit(self.per_host, patience_seconds=self.patience_seconds)
            yield Network(self.guard, resolver, self.connections, limit, max_age_seconds=self.max_age_seconds)
        finally:
            resolver.stop()


def run(opening: Opening, body: Callable[[Any], Awaitable[T]]) -> T:
    """Open a dispatcher on a new event loop, run `body` with the dispatcher, and close the dispatcher."""

    async def main() -> T:
        with opening.network() as network:
            dispatcher = opening.open_(network)
            try:
                return await body(dispatcher)
            finally:
                await dispatcher.close()

    return uvloop.run(main())


async def failure(dispatcher: Dispatcher, spec: dict[str, Any], delivery: Identity | None = None) -> DeliveryError:
    """Send a delivery that must fail; return its error."""
    with pytest.raises(DeliveryError) as caught:
        await dispatcher.send(spec, delivery or identity())
    return caught.value
