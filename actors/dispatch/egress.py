"""Egress guard: checks each address immediately before the connection.

The address itself is checked, so a host name that changes its address between check and connection (DNS rebinding)
gains nothing.
"""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Self

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

# The metadata services of most clouds have link-local addresses; other clouds follow by name.
_DENIED = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",  # AWS: instance metadata, credentials of EKS pods, time, names
        "fd20:ce::254/128",  # Google Cloud
        "100.100.100.200/32",  # Alibaba Cloud
        "192.0.0.192/32",  # Oracle Cloud
        "168.63.129.16/32",  # Azure
        "64:ff9b:1::/48",  # NAT64 of a local network, which may hold an IPv4 address in any of six places
    )
)
# Networks that are not public but may count as global in ipaddress, depending on its version.
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "fec0::/10",  # site-local, deprecated
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
# NAT64, and the IPv4-translated addresses of SIIT: the last 32 bits are the IPv4 address.
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::ffff:0:0:0/96"))
_IPV4_COMPATIBLE = IPv6Network("::/96")


class EgressRefusedError(OSError):
    """Connections to the address are forbidden."""

    def __init__(self) -> None:
        # One text for all addresses: aiohappyeyeballs keeps the type of several errors only if their texts are equal.
        super().__init__("the egress policy (TE_EGRESS_POLICY, TE_EGRESS_DENY) refuses its address")


class EgressGuard:
    """Decides on addresses: `allow` beats `deny` and the built-in list; the rest depends on the policy."""

    def __init__(self, *, public_only: bool, allow: Iterable[Network], deny: Iterable[Network]) -> None:
        self.public_only = public_only
        self._allow = tuple(allow)
        self._deny = (*_DENIED, *deny)

    @classmethod
    def from_settings(cls, policy: str, allow: Iterable[str], deny: Iterable[str]) -> Self:
        """Read TE_EGRESS_POLICY, TE_EGRESS_ALLOW and TE_EGRESS_DENY."""
        return cls(
            public_only=policy == "public-only",
            allow=[ip_network(item) for item in allow],
            deny=[ip_network(item) for item in deny],
        )

    def check_address(self, address: str) -> None:
        """Raise EgressRefusedError for a forbidden address."""
        try:
            given = ip_address(address)
        except ValueError:
            # The system understands further forms, such as 127.1.
            raise EgressRefusedError from None
        meant = _unwrap(given)
        if any(item in network for network in self._allow for item in (given, meant)):
            return
        is_denied = any(item in network for network in self._deny for item in (given, meant))
        if is_denied or (self.public_only and not _is_public(meant)):
            raise EgressRefusedError

    def open_socket(self, info: AddressInfo) -> socket.socket:
        """Open the socket for an address, or raise EgressRefusedError; called before each connection."""
        self.check_address(info[4][0])
        return socket.socket(info[0], info[1], info[2])


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 one: mapped, compatible, translated, 6to4, Teredo, NAT64."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 0xFFFF  # ::1 and similar addresses are real IPv6
    if is_compatible or any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
