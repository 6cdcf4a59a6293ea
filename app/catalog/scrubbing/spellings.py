"""Spellings of a secret in UTF-8: as it may be written before any escape."""

import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from app.catalog.scrubbing.layers import layers_of


def spellings(value: str) -> Iterator[bytes]:
    """Return a value, what it reads as once its own escapes are undone, and what careless receivers make of it."""
    for text in dict.fromkeys((value, value.strip())):
        for layer in layers_of(text.encode(errors="surrogatepass")):
            yield layer.raw
            yield layer.raw.replace(b" ", b"+")
        if not text.isascii():
            yield from _misread(text)
        # What looks like an escape already may read differently once it is escaped again.
        if any(sign in text for sign in "\\%&"):
            yield from (escaped.encode(errors="surrogatepass") for escaped in _escaped(text))


def _misread(text: str) -> Iterator[bytes]:
    """Return what is left of other letters where UTF-8 is taken for Latin-1, Latin-1 for UTF-8, or either for ASCII."""
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
