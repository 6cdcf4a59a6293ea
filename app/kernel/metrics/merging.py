"""Merging: what several processes have counted, as one; pure functions."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.kernel.metrics.series import ENDPOINT, SERIES, Kind, Merge, Series
from app.kernel.metrics.values import Cell, Labels, Snapshot

Figures = dict[Series, dict[Labels, Cell]]
"""The values of each series by its labels, over all processes."""


_AT_ONCE = 500  # cells: json lets no other thread run meanwhile


def packed(snapshot: Snapshot) -> bytes:
    """Return the text of a snapshot."""
    series = (f"{json.dumps(name)}: [{_listed([*found.items()])}]" for name, found in snapshot.cells.items())
    return f'{{"at": {snapshot.at}, "cells": {{{", ".join(series)}}}}}'.encode()


def _listed(cells: Sequence[tuple[Labels, Cell]]) -> str:
    parts = (cells[first : first + _AT_ONCE] for first in range(0, len(cells), _AT_ONCE))
    return ", ".join(json.dumps(part)[1:-1] for part in parts)


def unpacked(text: bytes) -> Snapshot:
    """Read the text of a snapshot; raises ValueError for anything else."""
    try:
        told = json.loads(text)
        return Snapshot(
            float(told["at"]),
            {name: {tuple(labels): list(cell) for labels, cell in found} for name, found in told["cells"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this is no snapshot") from error


def merged(alive: Iterable[Snapshot], ended: Iterable[Snapshot] = ()) -> Figures:
    """Return what processes say together; of those that have ended only what they counted is left."""
    # The newest first: of some gauges it alone tells.
    newest = sorted(alive, key=lambda snapshot: -snapshot.at)
    figures: Figures = {}
    for series in SERIES.values():
        told = [_fitting(snapshot, series) for snapshot in newest if series.name in snapshot.cells]
        if series.kind is not Kind.GAUGE:
            told += [_fitting(snapshot, series) for snapshot in ended if series.name in snapshot.cells]
        elif series.merge is Merge.NEWEST:
            told = told[:1]
        if told:
            figures[series] = _summed(told, 1 / len(told) if series.merge is Merge.MEAN else 1.0)
    return figures


def lasting(figures: Figures, at: float) -> Snapshot:
    """Return what is left of figures once their processes have ended: what was counted."""
    return Snapshot(at, {series.name: cells for series, cells in figures.items() if series.kind is not Kind.GAUGE})


def endpoints_in(snapshot: Snapshot) -> set[str]:
    """List the labels of endpoints in a snapshot."""
    found = ((SERIES[name].labels, cells) for name, cells in snapshot.cells.items() if ENDPOINT in SERIES[name].labels)
    return {labels[names.index(ENDPOINT)] for names, cells in found for labels in cells}


def relabelled(snapshot: Snapshot, label_of: Callable[[str], str | None]) -> Snapshot:
    """Give endpoints other labels, and leave out those without one; what gets one label is summed."""
    changed = dict(snapshot.cells)
    for name, cells in snapshot.cells.items():
        if ENDPOINT not in SERIES[name].labels:
            continue
        at = SERIES[name].labels.index(ENDPOINT)
        parts = [
            {(*labels[:at], label, *labels[at + 1 :]): cell}
            for labels, cell in cells.items()
            if (label := label_of(labels[at])) is not None
        ]
        changed[name] = _summed(parts, 1.0)
    return Snapshot(snapshot.at, changed)


def _fitting(snapshot: Snapshot, series: Series) -> dict[Labels, Cell]:
    """Return the values of a series; none that another version of it has left."""
    size, labels = series.cell_size, len(series.labels)
    found = snapshot.cells[series.name]
    return {key: cell for key, cell in found.items() if len(cell) == size and len(key) == labels}


def _summed(parts: Iterable[Mapping[Labels, Cell]], weight: float) -> dict[Labels, Cell]:
    total: dict[Labels, Cell] = {}
    for part in parts:
        for labels, cell in part.items():
            have = total.setdefault(labels, [0.0] * len(cell))
            for position, value in enumerate(cell):
                have[position] += value * weight
    return total
