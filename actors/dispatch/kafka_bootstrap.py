"""Bootstrap servers of a Kafka cluster: parse the list and check the addresses."""

from actors.dispatch.base import Network
from actors.dispatch.egress import EgressRefusedError
from app.executions.model import DeliveryError

DEFAULT_PORT = 9092


async def check_servers(bootstrap_servers: str, network: Network) -> None:
    """Raise DeliveryError if one of the servers must not be connected to, or none has an address."""
    failure = "the list of bootstrap servers is empty"
    found = False
    for host, port in hosts(bootstrap_servers):
        try:
            infos = await network.resolver.look_up(host, port)
        except OSError as error:
            failure = f"the host name {host} cannot be resolved: {error.strerror or error}"
            continue
        found = True
        try:
            # All of them are checked: librdkafka chooses among them by itself.
            for info in infos:
                network.guard.check_address(info[4][0])
        except EgressRefusedError as error:
            raise DeliveryError("BROKER_ERROR", f"cannot connect to {host}:{port}: {error}", permanent=True) from None
    if not found:
        raise DeliveryError("BROKER_ERROR", failure)


def hosts(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Read `host:port` pairs as librdkafka does: an optional `protocol://` before, brackets around IPv6."""
    found = []
    for item in bootstrap_servers.split(","):
        address = item.strip().rpartition("://")[2].rstrip("/")
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
            host, port = address, str(DEFAULT_PORT)
        if host:
            found.append((host.strip("[]"), int(port)))
    return found
