"""Driving a dispatcher from a test: a spec with its defaults, an identity, an event loop like the worker's."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
import uvloop

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.egress import EgressGuard
from app.catalog.templates.compilation import compile_spec
from app.executions.model import DeliveryError
from schema.states import EndpointType

T = TypeVar("T")

OPEN = EgressGuard(public_only=False, allow=[], deny=[])
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def identity(execution_id: str = "exec_1", attempt: int = 1) -> Identity:
    return Identity(execution_id, "job_1", attempt, datetime(2026, 3, 15, 10, 0, 0, 123456, UTC), TRACEPARENT)


def rendered(type_: EndpointType, spec: dict[str, Any]) -> dict[str, Any]:
    return compile_spec(type_, spec).render({}, {}, {})


def run(make: Callable[[], Dispatcher], body: Callable[[Any], Awaitable[T]]) -> T:
    """Open a dispatcher on a fresh event loop, use it, close it."""

    async def main() -> T:
        dispatcher = make()
        try:
            return await body(dispatcher)
        finally:
            await dispatcher.close()

    return uvloop.run(main())


async def failure(dispatcher: Dispatcher, spec: dict[str, Any], who: Identity | None = None) -> DeliveryError:
    """Send what must fail, and return how."""
    with pytest.raises(DeliveryError) as caught:
        await dispatcher.send(spec, who or identity())
    return caught.value
