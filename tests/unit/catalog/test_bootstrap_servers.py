"""Bootstrap servers: only unambiguous lists are accepted."""

import pytest

from app.catalog.specs.kafka import joined_servers, parse_servers
from tests.cases import each_case


@pytest.mark.parametrize(
    ("text", "servers", "list_"),
    [
        ("a:1", [("a", 1)], "a:1"),
        (" kafka_1.example.com:9092 , b-2:65535", [("kafka_1.example.com", 9092), ("b-2", 65535)], None),
        ("127.0.0.1:09", [("127.0.0.1", 9)], "127.0.0.1:9"),
        ("[0:0::1]:1", [("::1", 1)], "[::1]:1"),
        ("a" * 253 + ":1", [("a" * 253, 1)], None),
    ],
)
def test_valid_list_is_parsed_and_joined_again(text: str, servers: list[tuple[str, int]], list_: str | None) -> None:
    assert parse_servers(text) == servers
    assert parse_servers(joined_servers(servers)) == servers
    assert list_ in (None, joined_servers(servers))


@each_case(
    "text",
    [
        "",
        "a",
        ":1",
        "a:",
        "a:0",
        "a:65536",
        "a:1x",
        "a:+1",
        "a:\u0661",
        "a:1,",
        ",a:1",
        "a:1,:1",
        "a b:1",
        "a:1/x",
        "a/x:1",
        "SSL://a:1",
        "PLAINTEXT://169.254.169.254:80/x",
        "u@a:1",
        "::1:1",
        "[::1]",
        "[a]:1",
        "[fe80::1%eth0]:1",
        "-a:1",
        "\u00e9:1",
        "a" * 254 + ":1",
        "a:1\0",
    ],
)
def test_ambiguous_or_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_servers(text)
