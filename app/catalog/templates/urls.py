"""URLs of endpoint specs: checks of the template and of the rendered URL. Pure.

One rule keeps the input from choosing the target: the text before the first `{{input…}}` must already contain the
whole scheme, host and port. It is checked on the template, and again on each rendered URL, because a
config value decides part of it.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]+)")
_COMPLETE = re.compile(_AUTHORITY.pattern + "[/?]")
# Host and port after `user:password@`. The resolver decides whether a name exists.
_TARGET = re.compile(r"(?P<host>\[[^\[\]\s]+\]|[^\[\]:\s]+)(?::(?P<port>[0-9]{0,5}))?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_MAX_PORT = 65_535
_DOTS = frozenset({".", ".."})
# All characters that RFC 3986 allows in a URL, and %, so that text that is already encoded stays unchanged.
_LEGAL = "%:/?#[]@!$&'()*+,;=-._~"


def encode(text: str) -> str:
    """Percent-encode a value, all but letters, digits and `-._~`."""
    return quote(text, safe="", errors="replace")


def check_place_of_input(parts: Sequence[str | None], first_input: int) -> None:
    """Check a template whose part number `first_input` is input; None is any placeholder. Raises ValueError."""
    before = "".join("x" if part is None else part for part in parts[:first_input])
    if parts[0] is None and not before.startswith("x://"):
        # A leading placeholder is a base URL like {{config.api_base_url}}.
        before = "http://" + before
    if not _COMPLETE.match(before):
        message = "Input is allowed in the path and query only: the text before it must end the host, such as with /."
        raise ValueError(message)
    if has_dot_segment(before + "".join("x" if part is None else part for part in parts[first_input:])):
        raise ValueError("A path segment of a URL with input must not be '.' or '..'.")


def in_userinfo(before: str, after: str) -> bool:
    """Return whether a placeholder between these texts is part of `user:password@`."""
    authority_before, authority_after = before.partition("://")[2], re.split("[/?#]", after, maxsplit=1)[0]
    return "://" in before and not re.search("[/?#]", authority_before) and "@" in authority_after


def has_dot_segment(url: str) -> bool:
    """Return whether a path segment is `.` or `..`, also percent-encoded: receivers resolve such segments."""
    authority = _AUTHORITY.match(url)
    path = re.split("[?#]", url[authority.end() if authority else 0 :], maxsplit=1)[0]
    return any(re.sub("%2e", ".", segment, flags=re.IGNORECASE) in _DOTS for segment in path.split("/"))


def finish(url: str, schemes: frozenset[str], prefix: str | None) -> str:
    """Return a rendered URL in the form to send; `prefix` is the part before the first input, if any.

    Raises ValueError with a message that does not repeat the URL, which may hold a secret.
    """
    if CONTROL.search(url):
        raise ValueError("The URL must not contain a control character.")
    match = _AUTHORITY.match(url)
    if match is None or match["scheme"].lower() not in schemes:
        wanted = " or ".join(f"{scheme}://" for scheme in sorted(schemes))
        raise ValueError(f"The URL must start with {wanted} and a host.")
    if prefix is not None and not _COMPLETE.match(prefix):
        raise ValueError("The text before the input must contain the whole scheme, host and port of the URL.")
    if prefix is not None and has_dot_segment(url):
        raise ValueError("A path segment of the URL must not be '.' or '..'.")
    authority = _ascii_host(match["authority"])
    return f"{match['scheme']}://{authority}{quote(url[match.end() :], safe=_LEGAL, errors='replace')}"


def finish_locator(url: str, schemes: frozenset[str], _prefix: str | None = None) -> str:
    """Return a rendered locator after a check of its scheme only; raises ValueError as `finish` does."""
    if CONTROL.search(url):
        raise ValueError("The URL must not contain a control character.")
    scheme, colon, rest = url.strip().partition("://")
    if not colon or not rest or scheme.lower() not in schemes:
        raise ValueError(f"The URL must start with one of: {', '.join(f'{one}://' for one in sorted(schemes))}.")
    return url.strip()


def names_host(host: str) -> bool:
    """Return whether a host is a name or an address in the usual form.

    getaddrinfo also accepts 127.1, 2130706433 and 0x7f.1; the egress rules have the usual form only.
    """
    last = host.removesuffix(".").rpartition(".")[2]
    return _NUMBER.fullmatch(last) is None or _IPV4.fullmatch(host) is not None


def _ascii_host(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    target = _TARGET.fullmatch(host)
    if target is None or int(target["port"] or 0) > _MAX_PORT:
        raise ValueError("The host or port of the URL is not valid.")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise ValueError("The host of the URL is not a valid name.") from None
        target = _TARGET.fullmatch(host)
    if target is None or not names_host(target["host"]):
        raise ValueError("The host of the URL is a number: write it as 127.0.0.1, or give a name.")
    return f"{quote(userinfo, safe=_LEGAL, errors='replace')}{at}{host}"
