"""Parts of a request: its URL and its header fields."""

import base64
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from actors.dispatch.connector import Origin
from app.catalog.templates.urls import names_host

_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#]*)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/?#@\s]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<target>[/?][!-\"$-~]*)?(?:#[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_MAX_PORT = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
URLS_KEPT = 256
MAX_KEPT_LENGTH = 4096
"""Maximum length of a URL with its header values in the caches: longer ones come from inputs of up to a megabyte."""


class Url(NamedTuple):
    """A parsed URL."""

    origin: Origin
    host_header: str
    target: str
    """Path and query, unchanged."""
    authorization: str | None
    """Header value with the user and password of the URL."""


@lru_cache(URLS_KEPT)
def read_url(text: str) -> Url:
    """Parse a URL; raises ValueError, without the URL in its message."""
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueError("the URL is not valid")
    scheme, user, host = match["scheme"].lower(), match["user"], match["host"]
    default_port = _DEFAULT_PORTS[scheme]
    port = int(match["port"] or default_port)
    is_odd = not host.isascii() or _FORBIDDEN.search(host) or not names_host(host)
    if port > _MAX_PORT or is_odd:
        raise ValueError("the URL is not valid")
    target, authorization = match["target"] or "/", None
    if user is not None:
        name, _, password = map(unquote_to_bytes, user.partition(":"))
        authorization = "Basic " + base64.b64encode(name + b":" + password).decode()
    return Url(
        Origin(scheme == "https", host.strip("[]"), port),
        host if port == default_port else f"{host}:{port}",
        target if target.startswith("/") else f"/{target}",
        authorization,
    )


def write_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Write header fields; raises ValueError for control characters, which could end a field early."""
    lines = [f"{name}: {value}" for name, value in fields]
    if _FORBIDDEN.search("".join(lines)):
        raise ValueError("a control character in a header")
    return "".join(f"{line}\r\n" for line in lines)
