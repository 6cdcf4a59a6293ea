"""Grams: sequences of eight letters and digits, by which any part of a long secret is found in a text.

The time depends on the text only, not on how many and how long the secrets are.
"""

import re
from collections.abc import Iterable

from app.catalog.scrubbing.layers import Span

_SIZE = 8
_STEP = 4
LONG = _SIZE + _STEP - 1
"""Any run of this many letters and digits contains a gram that begins at a multiple of the step."""

_RUN = re.compile(rb"\x01{%d,}" % _STEP)


class Grams:
    """Grams of secrets; each secret is given by its letters and digits."""

    def __init__(self, skeletons: Iterable[bytes]) -> None:
        self._known = {gram for skeleton in skeletons for gram in _grams(skeleton)}

    def __len__(self) -> int:
        return len(self._known)

    def runs(self, skeleton: bytes) -> list[Span]:
        """Return the spans of `LONG` or more letters and digits that match parts of secrets."""
        # Most texts have none, which some of the grams show.
        if not self._known or len(skeleton) < LONG or self._known.isdisjoint(_some_grams(skeleton)):
            return []
        is_known = bytes(map(self._known.__contains__, _grams(skeleton)))
        return [(run.start(), run.end() + _SIZE - 1) for run in _RUN.finditer(is_known)]


def _grams(skeleton: bytes) -> list[int]:
    grams = [0] * max(len(skeleton) - _SIZE + 1, 0)
    for shift in range(min(_SIZE, len(grams))):
        grams[shift::_SIZE] = _cut(skeleton, shift)
    return grams


def _some_grams(skeleton: bytes) -> list[int]:
    return _cut(skeleton, 0) + _cut(skeleton, _STEP)


def _cut(skeleton: bytes, start: int) -> list[int]:
    """Return the grams at `start` and at every eighth place after it, as numbers, computed in C."""
    end = len(skeleton) - (len(skeleton) - start) % _SIZE
    return memoryview(skeleton)[start:end].cast("Q").tolist()
