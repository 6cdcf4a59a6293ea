"""Sending: one dispatcher per transport, all on the event loop of the worker process."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actors.dispatch.base import Dispatcher
from actors.dispatch.egress import EgressGuard
from actors.dispatch.http import HttpDispatcher
from actors.dispatch.network import NO_STARTERS, Network, PerHostLimit
from actors.dispatch.redis_stream import RedisStreamDispatcher
from actors.dispatch.resolver import Resolver
from actors.dispatch.workflow import WorkflowDispatcher
from app.kernel.config import Settings
from app.queue.executions.handover import Starter
from brokers.sharing.quota import max_claims
from schema.states import EndpointType

if TYPE_CHECKING:
    from actors.dispatch.actor_link.server import ActorService


def _kafka(network: Network) -> Dispatcher:
    from actors.dispatch.kafka import KafkaDispatcher  # noqa: PLC0415 - loads librdkafka

    return KafkaDispatcher(network)


def _notification(network: Network) -> Dispatcher:
    from actors.dispatch.notification import NotificationDispatcher  # noqa: PLC0415 - loads aiosmtplib

    return NotificationDispatcher(network)


def _actor(network: Network) -> Dispatcher:
    from actors.dispatch.actor import ActorDispatcher  # noqa: PLC0415 - few workers listen to processes with actors

    return ActorDispatcher(network)


DISPATCHERS: Mapping[EndpointType, Callable[[Network], Dispatcher]] = {
    EndpointType.HTTP: HttpDispatcher,
    EndpointType.KAFKA: _kafka,
    EndpointType.REDIS_STREAM: RedisStreamDispatcher,
    EndpointType.NOTIFICATION: _notification,
    EndpointType.WORKFLOW: WorkflowDispatcher,
    EndpointType.ACTOR: _actor,
}


class _Opened(dict[EndpointType, Dispatcher]):
    """Dispatchers by transport; the first delivery by a transport makes its dispatcher."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def __missing__(self, endpoint_type: EndpointType) -> Dispatcher:
        self[endpoint_type] = made = DISPATCHERS[endpoint_type](self._network)
        return made


class Dispatchers:
    """The dispatchers of a process and their network; each connects at its first use, on the loop of that use."""

    def __init__(self, network: Network) -> None:
        self.by_type: Mapping[EndpointType, Dispatcher] = _Opened(network)
        self._network = network

    def drain(self) -> None:
        """End all waits for a turn at a target."""
        self._network.turns.drain()
        for dispatcher in [*self.by_type.values()]:
            dispatcher.drain()

    async def sweep(self) -> None:
        """Close connections that were idle for long."""
        for dispatcher in [*self.by_type.values()]:
            await dispatcher.sweep()

    async def close(self) -> None:
        """Close everything."""
        for dispatcher in [*self.by_type.values()]:
            await dispatcher.close()
        self._network.resolver.stop()


def open_dispatchers(
    settings: Settings,
    starters: Mapping[EndpointType, Starter] = NO_STARTERS,
    actors: "ActorService | None" = None,
) -> Dispatchers:
    """Return a dispatcher for each transport; `starters` start the executions of features.

    With `actors`, the dispatcher of actors exists from the start, because processes connect to it.
    """
    opened = Dispatchers(
        Network(
            guard=EgressGuard.from_settings(settings.egress_policy, settings.egress_allow, settings.egress_deny),
            resolver=Resolver(),
            connections=max_claims(settings.worker_max_concurrent),
            turns=PerHostLimit(settings.connections_per_host, settings.stuck_timeout_seconds),
            starters=starters,
            actors=actors,
        )
    )
    if actors is not None:
        opened.by_type[EndpointType.ACTOR]
    return opened
