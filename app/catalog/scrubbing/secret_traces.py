"""Traces of secrets in a text: short secrets as a whole, and any eleven consecutive letters and digits of long secrets.

Long secrets are found by their letters and digits, which escapes leave unchanged, so cuts, line breaks and escaped
characters do not matter. All secrets are searched raw, in hex, and in base64 at each of the three possible offsets in
a group of three bytes.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from app.catalog.scrubbing.grams import LONG, Grams
from app.catalog.scrubbing.layers import Layer, Span, layers_of
from app.catalog.scrubbing.secret_parts import is_telling, passwords, pieces
from app.catalog.scrubbing.spellings import spellings
from app.catalog.scrubbing.text_views import BASE64, SKELETON, WORD_BYTES

SHORTEST_ANYWHERE = 4
"""Minimum length in bytes of secrets that are masked also inside words, and in hex and base64."""
MAX_PIECES = 100
"""Maximum of short pieces per secret: a secret with more pieces is long enough to be found by its grams."""


class _Core(NamedTuple):
    """Base64 of a secret, and the number of adjacent characters that hold further bits of the secret."""

    text: bytes
    before: int
    after: int


class Traces:
    """Search patterns for secrets."""

    def __init__(self, values: Iterable[str]) -> None:
        self._anywhere: set[bytes] = set()
        self._alone: set[bytes] = set()
        self._hex: set[bytes] = set()
        self._cores: set[_Core] = set()
        skeletons: set[bytes] = set()
        signs: set[bytes] = set()
        for value in values:
            for secret in dict.fromkeys((value, *passwords(value))):
                for raw in spellings(secret):
                    skeletons.update(self._note(raw))
                    if len(SKELETON.of(raw)) < LONG:
                        signs.add(raw.lower())
            self._alone.update(_short_pieces(value))
        self._grams = Grams(skeletons)
        self._sign_grams = Grams(signs)  # of secrets with few letters and digits
        self.has_any = bool(self._anywhere or self._alone)

    @property
    def weight(self) -> int:
        """Number of grams, which take most of the memory: about 90 bytes each."""
        return len(self._grams)

    def find(self, layer: Layer) -> Iterator[Span]:
        """Return the spans of secrets in a layer of a text; spans may overlap."""
        raw = layer.raw
        plain = raw.lower()
        for text in self._anywhere:
            if text in plain:
                yield from _occurrences(text, plain)
        for text in self._alone:
            if text in plain:
                yield from (span for span in _occurrences(text, plain) if _is_alone(span, plain))
        yield from self._sign_grams.runs(plain)
        skeleton = SKELETON.of(raw)
        found = self._grams.runs(skeleton)
        for text in self._hex:
            found += _occurrences(text, skeleton)
        yield from SKELETON.places(raw, found)
        yield from self._find_cores(raw)

    def _find_cores(self, raw: bytes) -> Iterator[Span]:
        view = BASE64.of(raw)
        found = [
            (max(start - core.before, 0), min(end + core.after, len(view)))
            for core in self._cores
            if core.text in view
            for start, end in _occurrences(core.text, view)
        ]
        for start, end in BASE64.places(raw, found):
            yield start, end + len(raw[end : end + 2]) - len(raw[end : end + 2].lstrip(b"="))

    def _note(self, raw: bytes) -> Iterator[bytes]:
        """Add one spelling of a secret; return the skeletons of a long one."""
        if len(raw.strip()) < SHORTEST_ANYWHERE:
            self._alone.update({raw.lower()} - {b""} if raw.strip() else ())
            return
        self._anywhere.add(raw.lower())
        digits = raw.hex().encode()
        if len(digits) < LONG:
            self._hex.add(digits)
        cores = list(_cores(raw))
        self._cores.update(cores)
        yield from (SKELETON.of(text) for text in (raw, digits, *(core.text for core in cores)))


def _short_pieces(value: str) -> Iterator[bytes]:
    """Return the pieces of a secret that are too short to be found by grams."""
    found: set[bytes] = set()
    for piece in pieces(value):
        if len(found) >= MAX_PIECES:
            break
        if is_telling(piece) and piece != value:
            found |= {layer.raw.lower() for layer in layers_of(piece.encode(errors="surrogatepass"))}
    yield from (piece for piece in found if piece.strip() and len(SKELETON.of(piece)) < LONG)


def _cores(raw: bytes) -> Iterator[_Core]:
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw)
        core = encoded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6]
        if len(core) >= SHORTEST_ANYWHERE:
            yield _Core(core, int(shift > 0), int((shift + len(raw)) % 3 > 0))


def _occurrences(text: bytes, within: bytes) -> Iterator[Span]:
    start = within.find(text)
    while start >= 0:
        end = start + len(text)
        yield start, end
        start = within.find(text, end)


def _is_alone(span: Span, plain: bytes) -> bool:
    start, end = span
    before, after = plain[start - 1 : start] if start else b"", plain[end : end + 1]
    return not any(byte in WORD_BYTES for byte in before + after)
