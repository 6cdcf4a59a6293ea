"""Sending: one dispatcher per transport, all on the event loop of the worker process.

The dispatcher of a transport is found by the name of its queue: `open_dispatcher` in the module of that name.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from actors.dispatch.base import Dispatcher, Network
from actors.dispatch.egress import EgressGuard
from actors.dispatch.resolver import Resolver
from app.kernel.config import Settings
from brokers.sharing.quota import max_claims
from schema.states import EndpointType

OPENERS: Mapping[EndpointType, Callable[[Network], Dispatcher]] = {
    endpoint_type: import_module(f"{__name__}.{endpoint_type.queue}").open_dispatcher for endpoint_type in EndpointType
}


class Dispatchers:
    """The dispatchers of a process, and the network that they share."""

    def __init__(self, by_type: Mapping[EndpointType, Dispatcher], network: Network) -> None:
        self.by_type = by_type
        self._network = network

    def drain(self) -> None:
        """Let no delivery wait for a turn at its target any more."""
        self._network.drain()

    async def sweep(self) -> None:
        """Close connections that have been idle for long."""
        for dispatcher in self.by_type.values():
            await dispatcher.sweep()

    async def close(self) -> None:
        """Close everything."""
        for dispatcher in self.by_type.values():
            await dispatcher.close()
        self._network.resolver.stop()


def open_dispatchers(settings: Settings) -> Dispatchers:
    """Make a dispatcher for each transport; each connects when it is first used, on the loop that uses it."""
    network = Network(
        guard=EgressGuard.from_settings(settings.egress_policy, settings.egress_allow, settings.egress_deny),
        resolver=Resolver(),
        connections=max_claims(settings.worker_max_concurrent),
        connections_per_host=settings.connections_per_host,
        stuck_seconds=settings.stuck_timeout_seconds,
    )
    by_type = {endpoint_type: open_dispatcher(network) for endpoint_type, open_dispatcher in OPENERS.items()}
    return Dispatchers(by_type, network)
