"""Sparkline: values of equal steps of time as paths of an SVG, with gaps for missing values."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 300, 56
_PAD = 2  # so that the line is not cut at its top


class Sparkline(NamedTuple):
    """Paths of a line and of the area below it, in a box of WIDTH by HEIGHT; `top` is the value of the upper edge."""

    line: str
    area: str
    top: float

    @property
    def box(self) -> str:
        return f"0 0 {WIDTH} {HEIGHT}"


def sparkline(values: Sequence[float | None], top: float = 0) -> Sparkline:
    """Draw values from left to right; the upper edge is the largest value, or `top` if that is larger."""
    top = max([top, *(value for value in values if value is not None)], default=0.0)
    pieces = list(_pieces(values, top))
    line = " ".join("M" + " L".join(f"{x:g},{y:g}" for x, y in piece) for piece in pieces)
    area = " ".join(
        f"M{piece[0][0]:g},{HEIGHT} " + " ".join(f"L{x:g},{y:g}" for x, y in piece) + f" L{piece[-1][0]:g},{HEIGHT}Z"
        for piece in pieces
    )
    return Sparkline(line, area, top)


def _pieces(values: Sequence[float | None], top: float) -> Iterator[list[tuple[float, float]]]:
    """Yield the points between gaps; a single value becomes a short line."""
    step = WIDTH / max(1, len(values) - 1)
    piece: list[tuple[float, float]] = []
    for place, value in enumerate([*values, None]):
        if value is not None:
            share = value / top if top else 0.0
            piece.append((round(place * step, 1), round(HEIGHT - share * (HEIGHT - _PAD), 1)))
        elif piece:
            yield piece if len(piece) > 1 else [piece[0], (round(piece[0][0] + step / 2, 1), piece[0][1])]
            piece = []
