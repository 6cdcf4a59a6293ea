"""Sections as a plot: a bar for each median, with a line from the smallest to the largest value."""

import statistics
from collections.abc import Sequence
from html import escape

from benchmarks.report.results import Figure, Section

_WIDTH, _NAMES, _BARS = 900, 210, 520
_ROW, _GAP, _HEAD = 18, 26, 34
_OURS, _OTHERS = "#2f6fb5", "#a9b4c0"


def draw(title: str, sections: Sequence[Section]) -> str:
    """Return an SVG; each metric has its own scale."""
    parts: list[str] = []
    top = _HEAD
    for section in sections:
        for figure, values in section.values.items():
            parts.append(_text(10, top + 12, f"{section.title}: {figure.name}, {figure.unit}", "bold"))
            parts += _bars(figure, values, top + 20)
            top += 20 + _ROW * len(values) + _GAP
    size = f'width="{_WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">'
    return "\n".join([head, f'<rect {size} fill="white"/>', _text(10, 20, title, "bold"), *parts, "</svg>\n"])


def _bars(figure: Figure, values: dict[str, list[float]], top: int) -> list[str]:
    largest = max((max(rounds) for rounds in values.values()), default=0) or 1
    parts = []
    for number, (name, rounds) in enumerate(values.items()):
        y = top + _ROW * number
        middle, low, high = (max(0.0, at) / largest * _BARS for at in (statistics.median(rounds), *_ends(rounds)))
        colour = _OURS if name.startswith("ours") else _OTHERS
        parts.append(_text(20, y + 12, name))
        parts.append(f'<rect x="{_NAMES}" y="{y + 2}" width="{middle:.1f}" height="{_ROW - 5}" fill="{colour}"/>')
        parts.append(
            f'<line x1="{_NAMES + low:.1f}" x2="{_NAMES + high:.1f}" y1="{y + 8}" y2="{y + 8}" stroke="black"/>'
        )
        parts.append(_text(_NAMES + _BARS + 10, y + 12, f"{statistics.median(rounds):,.{figure.digits}f}"))
    return parts


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _text(x: int, y: int, words: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(words)}</text>'
