"""Egress guard for Kafka: checks of the bootstrap servers, and of the brokers that a cluster names."""

import asyncio
from collections.abc import Collection

from actors.dispatch.egress import EgressRefusedError
from actors.dispatch.network import Network
from app.catalog.specs.kafka import MAX_HOST, joined_servers, parse_servers
from app.queue.executions.execution_model import DeliveryError

_NOT_UNDER_PUBLIC_ONLY = (
    "TE_EGRESS_POLICY=public-only refuses Kafka: librdkafka's connections to brokers cannot be checked one by one"
)
MAX_BROKERS = 1_000  # librdkafka starts a thread for each
LOOKUP_SECONDS = 5.0  # for the name of a broker


async def checked_servers(bootstrap_servers: str, network: Network) -> str:
    """Return the list for librdkafka; raises DeliveryError unless all addresses of all servers are permitted."""
    if network.guard.public_only:
        raise DeliveryError("CONNECTION_ERROR", _NOT_UNDER_PUBLIC_ONLY, permanent=True)
    try:
        servers = parse_servers(bootstrap_servers)
    except ValueError as error:
        raise DeliveryError("CONNECTION_ERROR", f"the bootstrap servers: {error}", permanent=True) from None
    for host, port in servers:
        try:
            infos = await network.resolver.look_up(host, port)
            # librdkafka chooses among the addresses by itself.
            for info in infos:
                network.guard.check_address(info[4][0])
        except EgressRefusedError as error:
            message = f"cannot connect to {host}:{port}: {error}"
            raise DeliveryError("CONNECTION_ERROR", message, permanent=True) from None
        except OSError as error:
            message = f"the host name {host} cannot be resolved: {error.strerror or error}"
            raise DeliveryError("BROKER_ERROR", message) from None
    return joined_servers(servers)


async def check_named_brokers(brokers: Collection[tuple[str, int]], *, network: Network) -> None:
    """Check the brokers that a cluster names; raises DeliveryError for a refused one.

    A name without an address is skipped: librdkafka cannot connect to it either, and other brokers may work.
    """
    if len(brokers) > MAX_BROKERS:
        message = f"the cluster names more than {MAX_BROKERS} brokers"
        raise DeliveryError("CONNECTION_ERROR", message, permanent=True)
    for host, port in brokers:
        try:
            ((host_, port_),) = parse_servers(joined_servers([(host, port)]))
            async with asyncio.timeout(LOOKUP_SECONDS):
                infos = await network.resolver.look_up(host_, port_)
            for info in infos:
                network.guard.check_address(info[4][0])
        except (EgressRefusedError, ValueError) as error:
            reason = error if isinstance(error, EgressRefusedError) else "it is no host name or address with a port"
            message, quote = "the cluster names a broker that is refused", f", {host[:MAX_HOST]}:{port}: {reason}"
            raise DeliveryError("CONNECTION_ERROR", message, quote=quote, permanent=True) from None
        except OSError:  # also TimeoutError
            continue
