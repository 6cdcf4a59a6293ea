"""Layers: a text, and the same text with its escapes undone, repeatedly; each byte maps to its original place.

Pure, and linear in the length of any text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from html.entities import html5

MAX_ESCAPINGS = 3  # for example JSON inside JSON inside an HTML page

# Escapes of JSON and programming languages (\u0026 \x26 \046 \n \/), of URLs (%26 %u0026) and of HTML (&amp; &#38;
# &#x26;). A pair of surrogates is one escape.
_ESCAPE = re.compile(
    rb"[\\%]u[Dd][89ABab][0-9A-Fa-f]{2}[\\%]u[Dd][C-Fc-f][0-9A-Fa-f]{2}"
    rb"|[\\%]u[0-9A-Fa-f]{4}"
    rb"|\\u\{[0-9A-Fa-f]{1,6}\}"
    rb"|\\x[0-9A-Fa-f]{2}"
    rb"|\\[0-3][0-7]{2}"
    rb"|\\[^0-9A-Zac-eg-mo-qsu-z\x80-\xff]"
    rb"|%[0-9A-Fa-f]{2}"
    rb"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}

Span = tuple[int, int]


class Layer:
    """Text in UTF-8: the original, or the layer below with its escapes undone."""

    def __init__(self, raw: bytes, below: "Layer | None" = None) -> None:
        self.raw = raw
        self._below = below

    def above(self) -> "Layer | None":
        """Return the layer with the escapes of this layer undone; None if it has no escapes."""
        undone = _ESCAPE.sub(lambda match: _undone(match[0]), self.raw)
        return None if undone == self.raw else Layer(undone, self)

    def original(self, span: Span) -> Span:
        """Return the original span of a span of this layer; an escape is never divided."""
        start, end = span
        if self._below is None:
            return span
        last = self.origins[end - 1]
        return self.origins[start], self.origins[bisect_right(self.origins, last)]

    @cached_property
    def origins(self) -> Sequence[int]:
        if self._below is None:
            return range(len(self.raw) + 1)
        origins: list[int] = []
        below, position = self._below.origins, 0
        for match in _ESCAPE.finditer(self._below.raw):
            origins.extend(below[position : match.start()])
            origins.extend([below[match.start()]] * len(_undone(match[0])))
            position = match.end()
        origins.extend(below[position:])
        return origins


def layers_of(raw: bytes) -> Iterator[Layer]:
    """Return the layer of the original text, and the layers above it until no escapes are left."""
    layer: Layer | None = Layer(raw)
    for _ in range(MAX_ESCAPINGS + 1):
        if layer is None:
            return
        yield layer
        layer = layer.above()


@lru_cache(4096)
def _undone(escape: bytes) -> bytes:
    """Return the bytes that an escape represents; an invalid escape represents itself."""
    if escape.startswith(b"&"):
        return _character(escape)
    if escape[1:2] in b"ux":
        return _code(escape)
    if escape.startswith(b"%"):
        return bytes.fromhex(escape[1:].decode())
    if escape[1:2] in b"0123":
        return bytes([int(escape[1:], 8)])
    return _LETTERS.get(escape[1:], escape[1:])


def _code(escape: bytes) -> bytes:
    digits = escape[2:].strip(b"{}")
    if len(escape) == 12:
        return bytes.fromhex((digits[:4] + digits[6:]).decode()).decode("utf-16-be").encode()
    if len(escape) == 4:
        return bytes.fromhex(digits.decode())
    return _utf8(int(digits, 16)) or escape


def _character(entity: bytes) -> bytes:
    name = entity[1:-1].decode()
    if not name.startswith("#"):
        return html5.get(f"{name};", f"&{name};").encode()
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return _utf8(code) or entity


def _utf8(code: int) -> bytes:
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b""
