"""Bootstrap servers of a Kafka cluster: check the list and its addresses before librdkafka gets it."""

from actors.dispatch.base import Network
from actors.dispatch.egress import EgressRefusedError
from app.catalog.specs.bootstrap_servers import normalised, parse
from app.queue.executions.execution_model import DeliveryError

_NOT_UNDER_PUBLIC_ONLY = (
    "TE_EGRESS_POLICY=public-only refuses Kafka: the brokers that a cluster names cannot be checked"
)


async def checked_servers(bootstrap_servers: str, network: Network) -> str:
    """Return the list for librdkafka; raises DeliveryError unless each server has an address and may be reached."""
    if network.guard.public_only:
        raise DeliveryError("CONNECTION_ERROR", _NOT_UNDER_PUBLIC_ONLY, permanent=True)
    try:
        servers = parse(bootstrap_servers)
    except ValueError as error:
        raise DeliveryError("CONNECTION_ERROR", f"the bootstrap servers: {error}", permanent=True) from None
    for host, port in servers:
        await _check(host, port, network)
    return normalised(servers)


async def _check(host: str, port: int, network: Network) -> None:
    try:
        infos = await network.resolver.look_up(host, port)
    except OSError as error:
        message = f"the host name {host} cannot be resolved: {error.strerror or error}"
        raise DeliveryError("BROKER_ERROR", message) from None
    try:
        # All of them are checked: librdkafka chooses among them by itself.
        for info in infos:
            network.guard.check_address(info[4][0])
    except EgressRefusedError as error:
        raise DeliveryError("CONNECTION_ERROR", f"cannot connect to {host}:{port}: {error}", permanent=True) from None
