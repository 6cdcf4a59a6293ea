"""Grams: sequences of eight letters and digits, by which any part of a long secret is found in a text.

The time depends on the text only, not on how many and how long the secrets are.
"""

import re
from collections.abc import Iterable

from app.catalog.scrubbing.layers import Span

_SIZE = 8
_STEP = 4
LONG = _SIZE + _STEP - 1
"""So many letters and digits in a row hold a gram that begins at a multiple of the step, wherever they are."""

_RUN = re.compile(rb"\x01{%d,}" % _STEP)


class Grams:
    """The grams of some secrets, each given by its letters and digits."""

    def __init__(self, skeletons: Iterable[bytes]) -> None:
        self._known = {gram for skeleton in skeletons for gram in _grams(skeleton)}

    def __len__(self) -> int:
        return len(self._known)

    def runs(self, skeleton: bytes) -> list[Span]:
        """Return where a text has `LONG` or more letters and digits in a row of what may be a secret."""
        # Most texts have none: a look at some grams tells.
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
    """Return the grams that begin at `start` and at every eighth place after it, as numbers: made in C, in one go."""
    end = len(skeleton) - (len(skeleton) - start) % _SIZE
    return memoryview(skeleton)[start:end].cast("Q").tolist()
