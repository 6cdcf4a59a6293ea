"""Parts of a secret that receivers may repeat alone, such as a password, and spellings before any escaping."""

import base64
import binascii
import html
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from app.catalog.scrubbing.layers import layers_of

_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|apikey|api-key|negotiate|key|sso-key|genie-?key|bot)\s+(\S.*)")
_NAMED = re.compile(
    r"(?i)(?:password|passwd|passphrase|passwort|pwd|pass|secret|token|key|sig|signature|credential|auth)"
    r"[\"']?\s{0,3}[=:]\s{0,3}(?:\"([^\"]+)\"|'([^']+)'|([^\s\"';&,]+))"
)
_USER_AND_PASSWORD = re.compile(r"([^\s/:@]+):(\S+)")
_DELIMITERS = re.compile(r"[\s\"'`;,&=?#/:@<>(){}\[\]|\\]+")
_MAX_NESTED = 20


def passwords(value: str) -> Iterator[str]:
    scheme = _SCHEME.fullmatch(value)
    if scheme:
        yield from _credentials(scheme[1])
    yield from _of_urls(value)
    yield from filter(is_telling, _strings_of_json(value))
    for match in _NAMED.finditer(value):
        named = match[1] or match[2] or match[3]
        yield from (named, unquote(named))
    before, at, _ = value.rpartition("@")
    pair = _USER_AND_PASSWORD.fullmatch(before if at and "://" not in value else value)
    if pair and not pair[2].startswith("//"):
        yield pair[2]


def pieces(value: str) -> Iterator[str]:
    """Return the parts that are masked when they stand alone: words, lines, segments of URLs."""
    yield from value.splitlines()
    yield from value.split()
    yield from _DELIMITERS.split(value)
    yield from _ends_of_path(value)


def is_telling(piece: str) -> bool:
    """Return whether a short part is likely to be secret: eight characters, or fewer with a digit among letters."""
    digits = sum(character.isdigit() for character in piece)
    letters = sum(character.isalpha() for character in piece)
    return len(piece) >= 8 or (len(piece) >= 4 and digits > 0 and letters > 0) or digits >= 6


def _credentials(text: str) -> Iterator[str]:
    """Return the text after `Bearer` or `Basic`, raw and decoded, and its password."""
    yield text
    for pair in (text, _from_base64(text)):
        _, colon, password = pair.partition(":")
        if colon and password:
            yield from (pair, password)


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_").decode()
    except (binascii.Error, ValueError):
        return ""


def _of_urls(value: str) -> Iterator[str]:
    """Return `user:password` and the password of each URL, raw and decoded; the user if it has no password.

    Searches for `://` first: a pattern would try to begin at each letter before it.
    """
    for rest in value.split("://")[1:]:
        authority = re.split(r"[/?#\s\"']", rest, maxsplit=1)[0]
        userinfo, at, _ = authority.rpartition("@")
        if at:
            user, _, password = userinfo.partition(":")
            yield from (userinfo, unquote(userinfo), password or user, unquote(password or user))


def _ends_of_path(value: str) -> Iterator[str]:
    """Return the ends of the path of a URL, with the query: a receiver may know only an end."""
    if "://" not in value:
        return
    try:
        url = urlsplit(value.strip())
    except ValueError:
        return
    target = url._replace(scheme="", netloc="", fragment="").geturl()
    segments = target.split("/")
    for count in range(1, min(len(segments), 10)):
        yield "/" + "/".join(segments[-count:])


def _strings_of_json(value: str) -> Iterator[str]:
    if value.lstrip()[:1] not in {"{", "["}:
        return
    try:
        yield from _strings(json.loads(value), 0)
    except (ValueError, RecursionError):
        return


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _MAX_NESTED and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)


def spellings(value: str) -> Iterator[bytes]:
    """Return a value in UTF-8, the value with its own escapes undone, and its spellings in wrong encodings."""
    for text in dict.fromkeys((value, value.strip())):
        for layer in layers_of(text.encode(errors="surrogatepass")):
            yield layer.raw
            yield layer.raw.replace(b" ", b"+")
        if not text.isascii():
            yield from _misread(text)
        # A value that contains escapes may read differently after another escaping.
        if any(sign in text for sign in "\\%&"):
            yield from (escaped.encode(errors="surrogatepass") for escaped in _escaped(text))


def _misread(text: str) -> Iterator[bytes]:
    """Return the text as misread: UTF-8 as Latin-1, Latin-1 as UTF-8, or either as ASCII."""
    raw = text.encode(errors="replace")
    ascii_only = text.encode("ascii", "replace")
    yield raw.decode("latin-1").encode()
    yield raw.decode("ascii", "replace").encode()
    yield from (ascii_only, ascii_only.decode().replace("?", "\ufffd").encode())


def _escaped(text: str) -> Iterator[str]:
    yield html.escape(text)
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escaped.replace("/", "\\/"))
    yield from (quote(text, errors="replace"), quote(text, safe="", errors="replace"))
    yield quote_plus(text, errors="replace")
