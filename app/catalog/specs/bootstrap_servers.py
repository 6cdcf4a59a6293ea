"""Bootstrap servers of a Kafka cluster, restricted to the syntax that this service and librdkafka read alike."""

import re
from ipaddress import IPv6Address

MAX_HOST = 253

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_PORT = re.compile(r"[0-9]{1,5}")
_FORM = "host:port entries, separated by commas, are needed"


def parse(text: str) -> list[tuple[str, int]]:
    """Read `host:port` entries; raises ValueError, without the text in its message, for anything else.

    librdkafka accepts more: a scheme, a path, letters after the port, an empty host for localhost. A check of the
    addresses would read such entries differently.
    """
    return [_server(entry.strip()) for entry in text.split(",")]


def normalised(servers: list[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def _server(entry: str) -> tuple[str, int]:
    host, colon, port = entry.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{_FORM}, with a port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        return _address(host[1:-1]), int(port)
    if len(host) > MAX_HOST or not _HOST.fullmatch(host):
        raise ValueError(f"{_FORM}, with host names of at most {MAX_HOST} ASCII letters, digits, hyphens and dots")
    return host, int(port)


def _address(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        address = None
    if address is None or address.scope_id:
        raise ValueError(f"{_FORM}, with an IPv6 address without zone in brackets")
    return str(address)
