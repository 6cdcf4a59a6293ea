"""Egress policy: the addresses that deliveries may reach."""

import socket

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard, EgressRefusedError
from tests.cases import each_case

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "::ffff:169.254.169.254",  # IPv4-mapped
    "::169.254.169.254",  # IPv4-compatible
    "64:ff9b::169.254.169.254",  # NAT64
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",  # the /48 form of RFC 6052
    "::ffff:0:a9fe:a9fe",  # SIIT
    "2002:a9fe:a9fe::1",  # 6to4
    "2001:0:4136:e378:8000:63bf:5601:5601",  # Teredo
]
PRIVATE = ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1", "::1", "fd12::1", "0.0.0.0", "::"]
PRIVATE_IN_DISGUISE = ["::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "255.255.255.255", "ff02::1"]
NOT_PUBLIC = ["fec0::1", "5f00::1", "3fff::1", "2001:db8::1", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::ffff:0:7f00:1"]
PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "::ffff:0:808:808"]
NOT_ADDRESSES = ["", "127.1", "2130706433", "0x7f.1", "017700000001", "localhost", "\uff11\uff12\uff17.0.0.1"]


def refuses(guard, address):
    try:
        guard.check_address(address)
    except EgressRefusedError:
        return True
    return False


@each_case("address", METADATA + NOT_ADDRESSES)
@each_case("policy", ["default", "public-only"])
def test_metadata_services_are_never_reached(policy, address):
    assert refuses(EgressGuard.from_settings(policy, [], []), address)


@each_case("address", PRIVATE + PUBLIC)
def test_private_networks_are_reached_by_default(address):
    assert not refuses(EgressGuard.from_settings("default", [], []), address)


@each_case("address", PRIVATE + PRIVATE_IN_DISGUISE + NOT_PUBLIC)
def test_public_only_refuses_every_other_address(address):
    assert refuses(EgressGuard.from_settings("public-only", [], []), address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached_by_both_policies(address):
    assert not refuses(EgressGuard.from_settings("public-only", [], []), address)


@each_case(
    ("address", "allow", "deny", "refused"),
    [
        ("10.0.0.1", [], ["10.0.0.0/8"], True),
        ("::ffff:10.0.0.1", [], ["10.0.0.0/8"], True),
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.0/8"], False),
        ("10.0.0.2", ["10.0.0.1"], ["10.0.0.0/8"], True),
        ("169.254.169.254", ["169.254.169.254/32"], [], False),
        ("::ffff:169.254.169.254", ["169.254.169.254/32"], [], False),
        ("8.8.8.8", [], ["0.0.0.0/0"], True),
        ("64:ff9b:1::808:808", [], [], True),
        ("64:ff9b:1::808:808", ["64:ff9b:1::/48"], [], False),
        ("2606:4700::1", [], ["0.0.0.0/0"], False),
        ("::1", [], ["0.0.0.0/8"], False),
    ],
)
def test_allow_overrides_deny(address, allow, deny, refused):
    assert refuses(EgressGuard.from_settings("default", allow, deny), address) is refused


def info(address):
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))


def test_no_socket_is_created_for_a_refused_address():
    guard = EgressGuard.from_settings("public-only", [], [])
    with pytest.raises(EgressRefusedError):
        guard.open_socket(info("127.0.0.1"))
    guard.open_socket(info("8.8.8.8")).close()
