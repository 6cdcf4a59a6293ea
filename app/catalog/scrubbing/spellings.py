"""Spellings of a secret in UTF-8, before any escaping."""

import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from app.catalog.scrubbing.layers import layers_of


def spellings(value: str) -> Iterator[bytes]:
    """Return a value, the value with its own escapes undone, and its spellings in wrong encodings."""
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
