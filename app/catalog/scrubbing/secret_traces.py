"""Traces of secrets in a text: short secrets as a whole, and any eleven consecutive letters and digits of long secrets.

Long secrets are found by their letters and digits, which escapes leave unchanged, so cuts, line breaks and escaped
characters do not matter. All secrets are searched raw, in hex, and in base64 at each of the three possible offsets in
a group of three bytes.
"""

import base64
import re
import string
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import NamedTuple

from app.catalog.scrubbing.layers import Layer, Span, layers_of
from app.catalog.scrubbing.secret_parts import is_telling, passwords, pieces, spellings

MIN_ANYWHERE = 4  # bytes of a secret that is masked also inside words, and in hex and base64
MAX_PIECES = 100  # short pieces per secret: a secret with more pieces is long enough to be found by its grams

_WORD_BYTES = frozenset(range(128, 256)) | frozenset((string.ascii_letters + string.digits).encode())
_BASE64_BYTES = frozenset((string.ascii_letters + string.digits + "+/-_").encode())
_SIZE = 8  # of a gram
_STEP = 4
# Any run of this many letters and digits contains a gram that begins at a multiple of the step.
_LONG = _SIZE + _STEP - 1
_RUN = re.compile(rb"\x01{%d,}" % _STEP)


class _View:
    """Normalised bytes of a text that a search compares, with their places in the text."""

    def __init__(self, kept: frozenset[int], table: bytes) -> None:
        self._table = table
        self._dropped = bytes(set(range(256)) - kept)
        self._is_kept = bytes(byte in kept for byte in range(256))

    def of(self, raw: bytes) -> bytes:
        return raw.translate(self._table, self._dropped)

    def places(self, raw: bytes, spans: Iterable[Span]) -> Iterator[Span]:
        """Return the spans in the text of spans in the view."""
        places: list[int] = []
        for start, end in spans:
            # Computed on demand: few texts have spans.
            places = places or list(compress(range(len(raw)), raw.translate(self._is_kept)))
            yield places[start], places[end - 1] + 1


# Letters and digits in lower case, which escapes and line breaks leave unchanged.
_SKELETON = _View(_WORD_BYTES, bytes(range(256)).lower())
# Base64 in its standard alphabet, without line breaks.
_BASE64 = _View(_BASE64_BYTES, bytes.maketrans(b"-_", b"+/"))


class _Grams:
    """Sequences of eight letters and digits, to find any part of a long secret in a text.

    The time depends on the text only, not on the number and the length of the secrets.
    """

    def __init__(self, skeletons: Iterable[bytes]) -> None:
        self.known = {gram for skeleton in skeletons for gram in _grams(skeleton)}

    def runs(self, skeleton: bytes) -> list[Span]:
        """Return the spans of `_LONG` or more letters and digits that match parts of secrets."""
        # Most texts have none, which some of the grams show.
        if len(skeleton) < _LONG or self.known.isdisjoint(_cut(skeleton, 0) + _cut(skeleton, _STEP)):
            return []
        is_known = bytes(map(self.known.__contains__, _grams(skeleton)))
        return [(run.start(), run.end() + _SIZE - 1) for run in _RUN.finditer(is_known)]


def _grams(skeleton: bytes) -> list[int]:
    grams = [0] * max(len(skeleton) - _SIZE + 1, 0)
    for shift in range(min(_SIZE, len(grams))):
        grams[shift::_SIZE] = _cut(skeleton, shift)
    return grams


def _cut(skeleton: bytes, start: int) -> list[int]:
    """Return the grams at `start` and at every eighth place after it, as numbers, computed in C."""
    end = len(skeleton) - (len(skeleton) - start) % _SIZE
    return memoryview(skeleton)[start:end].cast("Q").tolist()


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
                    if len(_SKELETON.of(raw)) < _LONG:
                        signs.add(raw.lower())
            self._alone.update(_short_pieces(value))
        self.grams = _Grams(skeletons)
        self._sign_grams = _Grams(signs)  # of secrets with few letters and digits
        self.has_any = bool(self._anywhere or self._alone)

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
        skeleton = _SKELETON.of(raw)
        found = self.grams.runs(skeleton)
        for text in self._hex:
            found += _occurrences(text, skeleton)
        yield from _SKELETON.places(raw, found)
        yield from self._find_cores(raw)

    def _find_cores(self, raw: bytes) -> Iterator[Span]:
        view = _BASE64.of(raw)
        found = [
            (max(start - core.before, 0), min(end + core.after, len(view)))
            for core in self._cores
            if core.text in view
            for start, end in _occurrences(core.text, view)
        ]
        for start, end in _BASE64.places(raw, found):
            yield start, end + len(raw[end : end + 2]) - len(raw[end : end + 2].lstrip(b"="))

    def _note(self, raw: bytes) -> Iterator[bytes]:
        """Add one spelling of a secret; return the skeletons of a long spelling."""
        if len(raw.strip()) < MIN_ANYWHERE:
            if raw.strip():
                self._alone.add(raw.lower())
            return
        self._anywhere.add(raw.lower())
        digits = raw.hex().encode()
        if len(digits) < _LONG:
            self._hex.add(digits)
        cores = list(_cores(raw))
        self._cores.update(cores)
        yield from (_SKELETON.of(text) for text in (raw, digits, *(core.text for core in cores)))


def _short_pieces(value: str) -> Iterator[bytes]:
    """Return the pieces of a secret that are too short to be found by grams."""
    found: set[bytes] = set()
    for piece in pieces(value):
        if len(found) >= MAX_PIECES:
            break
        if is_telling(piece) and piece != value:
            found |= {layer.raw.lower() for layer in layers_of(piece.encode(errors="surrogatepass"))}
    return (piece for piece in found if piece.strip() and len(_SKELETON.of(piece)) < _LONG)


def _cores(raw: bytes) -> Iterator[_Core]:
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw)
        core = encoded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6]
        if len(core) >= MIN_ANYWHERE:
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
    return not any(byte in _WORD_BYTES for byte in before + after)
