"""HTTP requests written as bytes, and parsing of URLs."""

from datetime import UTC, datetime

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Identity
from actors.dispatch.connector import Origin
from actors.dispatch.http import compose
from actors.dispatch.http1.request import read_url, write_fields
from tests.cases import each_case


@each_case(
    ("text", "origin", "host_header", "target"),
    [
        ("http://h", Origin(False, "h", 80), "h", "/"),
        ("HTTPS://H.example:443/A?", Origin(True, "H.example", 443), "H.example", "/A?"),
        ("http://h?q=1", Origin(False, "h", 80), "h", "/?q=1"),
        ("http://h:/x#y", Origin(False, "h", 80), "h", "/x"),
        ("http://h:0/", Origin(False, "h", 0), "h:0", "/"),
        ("https://h:80/", Origin(True, "h", 80), "h:80", "/"),
        ("http://[::1]:8080/x", Origin(False, "::1", 8080), "[::1]:8080", "/x"),
        ("http://[fe80::1%25eth0]/", Origin(False, "fe80::1%25eth0", 80), "[fe80::1%25eth0]", "/"),
        ("http://127.0.0.1/", Origin(False, "127.0.0.1", 80), "127.0.0.1", "/"),
        ("http://a@b@h/", Origin(False, "h", 80), "h", "/"),
    ],
)
def test_url_is_parsed(text: str, origin: Origin, host_header: str, target: str) -> None:
    url = read_url(text)
    assert (url.origin, url.host_header, url.target) == (origin, host_header, target)


@pytest.mark.parametrize(
    ("user", "wanted"),
    [("u:p%3A%40", "Basic dTpwOkA="), ("u", "Basic dTo="), (":p", "Basic OnA="), ("%FF:", "Basic /zo=")],
)
def test_user_and_password_become_a_header(user: str, wanted: str) -> None:
    assert read_url(f"http://{user}@h/").authorization == wanted


@each_case(
    "text",
    [
        "",
        "h",
        "ftp://h/",
        "http://",
        "http:///x",
        "http://h:65536/",
        "http://h:x/",
        "http://[::1/",
        "http://[::1]x/",
        "http://a b/",
        "http://bücher.example/",
        "http://127.1/",
        "http://2130706433/",
        "http://h/a b",
        "http://h/a\r\nX: y",
        "http://h/é",
        "http://h\n/",
        "http://h\1/",
        "http://h/\n",
    ],
)
def test_unusable_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the URL is not valid"):
        read_url(text)


def test_head_of_a_request_is_written() -> None:
    headers = {"X-A": "é\t", "b": "", "c": "\ud800"}
    identity = Identity("exec_1", "job_1", 1, datetime(2030, 1, 1, tzinfo=UTC), "")
    origin, request = compose({"method": "PUT", "url": "http://h:1/p?q", "headers": headers}, identity)
    assert origin == Origin(is_tls=False, host="h", port=1)
    assert request.startswith(b"PUT /p?q HTTP/1.1\r\nHost: h:1\r\nX-A: \xc3\xa9\t\r\nb: \r\nc: \r\n")
    assert request.endswith(b"\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("field", [("a", "b\r\nc: d"), ("a\n", "b"), ("a", "\0"), ("a", "\x7f")])
def test_header_field_cannot_contain_control_characters(field: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="control character"):
        write_fields([field])
