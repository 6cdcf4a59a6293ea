"""Views: the bytes of a text that a search compares, normalised, with their places in the text."""

import string
from collections.abc import Iterable, Iterator
from itertools import compress

from app.catalog.scrubbing.layers import Span

WORD_BYTES = frozenset(range(128, 256)) | frozenset((string.ascii_letters + string.digits).encode())
_BASE64_BYTES = frozenset((string.ascii_letters + string.digits + "+/-_").encode())


class View:
    """View that keeps some bytes and translates them."""

    def __init__(self, kept: frozenset[int], table: bytes) -> None:
        self._table = table
        self._dropped = bytes(set(range(256)) - kept)
        self._is_kept = bytes(byte in kept for byte in range(256))

    def of(self, raw: bytes) -> bytes:
        """Return the view of a text."""
        return raw.translate(self._table, self._dropped)

    def places(self, raw: bytes, spans: Iterable[Span]) -> Iterator[Span]:
        """Return the spans in the text of spans in the view."""
        places: list[int] = []
        for start, end in spans:
            # Computed on demand: few texts have spans.
            places = places or list(compress(range(len(raw)), raw.translate(self._is_kept)))
            yield places[start], places[end - 1] + 1


SKELETON = View(WORD_BYTES, bytes(range(256)).lower())
"""Letters and digits in lower case, which escapes and line breaks leave unchanged."""

BASE64 = View(_BASE64_BYTES, bytes.maketrans(b"-_", b"+/"))
"""Base64 in its standard alphabet, without line breaks."""
