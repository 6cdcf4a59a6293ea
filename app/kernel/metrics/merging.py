"""Merging: combines the metric snapshots of several processes; pure functions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from app.kernel.metrics.series import ENDPOINT, SERIES, Kind, Merge, Series
from app.kernel.metrics.values import Cell, Labels, Snapshot

MergedMetrics = dict[Series, dict[Labels, Cell]]
"""The values of each series by its labels, over all processes."""


_AT_ONCE = 500  # cells; json.dumps holds the interpreter lock for the whole call


def packed(snapshot: Snapshot) -> bytes:
    """Return a snapshot as JSON."""
    series = (f"{json.dumps(name)}: [{_listed([*found.items()])}]" for name, found in snapshot.cells.items())
    return f'{{"at": {snapshot.at}, "cells": {{{", ".join(series)}}}}}'.encode()


def _listed(cells: Sequence[tuple[Labels, Cell]]) -> str:
    parts = (cells[first : first + _AT_ONCE] for first in range(0, len(cells), _AT_ONCE))
    return ", ".join(json.dumps(part)[1:-1] for part in parts)


def unpacked(text: bytes) -> Snapshot:
    """Read a snapshot from JSON; raises ValueError for anything else."""
    try:
        stored = json.loads(text)
        return Snapshot(
            float(stored["at"]),
            {name: {tuple(labels): list(cell) for labels, cell in found} for name, found in stored["cells"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a metrics snapshot") from error


def merged(alive: Iterable[Snapshot], ended: Iterable[Snapshot] = ()) -> MergedMetrics:
    """Merge the snapshots of all processes; keep only the counters of ended processes."""
    newest = sorted(alive, key=attrgetter("at"), reverse=True)
    metrics: MergedMetrics = {}
    for series in SERIES.values():
        parts = [_fitting(snapshot, series) for snapshot in newest if series.name in snapshot.cells]
        if series.kind is not Kind.GAUGE:
            parts += [_fitting(snapshot, series) for snapshot in ended if series.name in snapshot.cells]
        elif series.merge is Merge.NEWEST:
            parts = parts[:1]
        if parts:
            metrics[series] = _summed(parts, 1 / len(parts) if series.merge is Merge.MEAN else 1.0)
    return metrics


def lasting(metrics: MergedMetrics, at: float) -> Snapshot:
    """Return the counters and histograms, which outlive their processes."""
    return Snapshot(at, {series.name: cells for series, cells in metrics.items() if series.kind is not Kind.GAUGE})


def endpoints_in(snapshot: Snapshot) -> set[str]:
    found = ((SERIES[name].labels, cells) for name, cells in snapshot.cells.items() if ENDPOINT in SERIES[name].labels)
    return {labels[names.index(ENDPOINT)] for names, cells in found for labels in cells}


def relabelled(snapshot: Snapshot, label_of: Mapping[str, str]) -> Snapshot:
    """Give endpoints other labels; drop endpoints without a label and sum cells that get the same label."""
    changed = dict(snapshot.cells)
    for name, cells in snapshot.cells.items():
        if ENDPOINT in SERIES[name].labels:
            at = SERIES[name].labels.index(ENDPOINT)
            parts = [
                {(*labels[:at], label_of[labels[at]], *labels[at + 1 :]): cell}
                for labels, cell in cells.items()
                if labels[at] in label_of
            ]
            changed[name] = _summed(parts, 1.0)
    return Snapshot(snapshot.at, changed)


def _fitting(snapshot: Snapshot, series: Series) -> dict[Labels, Cell]:
    """Return the values of a series without cells written by another version of it."""
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
