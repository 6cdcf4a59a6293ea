"""Request: where it goes, and its bytes."""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from actors.dispatch.connector import Origin

_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#]*)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/?#\s]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<target>[/?][!-\"$-~]*)?(?:#[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
# getaddrinfo takes more than one form of these, such as 127.1: only the one that the egress rules name is sent to.
_NUMERIC = re.compile(r"[0-9.]+")
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_MAX_PORT = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
URLS_KEPT = 256
LONGEST_KEPT = 4096
"""Characters of a URL and of header values that are worth remembering: a long one is made of an input, which may have a
megabyte."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as it is needed to send to it."""

    origin: Origin
    host_header: str
    target: str
    """Path and query, as they are written."""
    authorization: str | None
    """Value of the header that says user and password of the URL."""


@lru_cache(URLS_KEPT)
def read_url(text: str) -> Url:
    """Take a URL apart; raises ValueError, without the URL in its message."""
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueError("the URL is not valid")
    scheme, user, host = match["scheme"].lower(), match["user"], match["host"]
    default_port = _DEFAULT_PORTS[scheme]
    port = int(match["port"] or default_port)
    is_odd = not host.isascii() or _FORBIDDEN.search(host) or (_NUMERIC.fullmatch(host) and not _IPV4.fullmatch(host))
    if port > _MAX_PORT or is_odd:
        raise ValueError("the URL is not valid")
    target = match["target"] or "/"
    return Url(
        Origin(scheme == "https", host.strip("[]"), port),
        host if port == default_port else f"{host}:{port}",
        target if target.startswith("/") else f"/{target}",
        None if user is None else _basic(user),
    )


def write_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Write header fields; raises ValueError for control characters, which could end a field early."""
    lines = [f"{name}: {value}" for name, value in fields]
    if _FORBIDDEN.search("".join(lines)):
        raise ValueError("a control character in a header")
    return "".join(f"{line}\r\n" for line in lines)


def write_head(method: str, url: Url, fields: str) -> bytes:
    """Write the head of a request with these fields."""
    return f"{method} {url.target} HTTP/1.1\r\nHost: {url.host_header}\r\n{fields}\r\n".encode(errors="ignore")


def _basic(user: str) -> str:
    name, _, password = user.partition(":")
    return "Basic " + base64.b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password)).decode()
