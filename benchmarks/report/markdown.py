"""Sections as Markdown tables: a row for each metric, a column for each contender."""

from collections.abc import Iterable, Sequence

from benchmarks.report.results import Section, median


def show(section: Section) -> str:
    """Return a heading and a table with medians and ranges over the rounds."""
    columns = section.columns
    rows = [
        [f"{figure.name}, {figure.unit}" if figure.unit else figure.name]
        + [median(values[name], figure.digits) if name in values else "" for name in columns]
        for figure, values in section.values.items()
    ]
    return f"## {section.title}\n\n{_table(['', *columns], rows)}\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    table = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = ["| " + " | ".join(_padded(row, widths)) + " |" for row in table]
    lines.insert(1, "|" + "|".join("-" * (width + 1) + (":" if n else "-") for n, width in enumerate(widths)) + "|")
    return "\n".join(lines)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *cells = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in cells)]
