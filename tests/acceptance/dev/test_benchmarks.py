"""Benchmarks: commands run in their smallest size and report every metric. No value is judged.

`make test` runs one of the commands, or a part of it, at random.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from app.console.pages import all_pages
from benchmarks import environment
from benchmarks.contenders import peer
from benchmarks.contenders.actor_contenders import PEERS
from benchmarks.measures import create, drain, flight, latency, prune, sizes, ticks, transports, workflows
from benchmarks.measures.flow import backlogs, isolation, keys, limits, overload
from benchmarks.report.results import Figure
from tests.cases import Breaches, choice_of
from tests.integration.http.document import document

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

SMALL = ("--rounds", "1", "--executions", "100", "--samples", "5", "--seconds", "0.2", "--steps", "1000")

SIZES = ("--in-flight", "50", "--held", "1", "--minutes", "0.02", "--size", "smallest")
HISTORY = ("--finished", "1000", "--future", "100", "--filters", "1", "--due", "50")


def run(*words: str, **env: str) -> str:
    """Run a command of the benchmarks and return its output."""
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(
        command, cwd=environment.ROOT, env=os.environ | env, capture_output=True, text=True, check=False, timeout=850
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def values(output: str, figure: Figure) -> list[str]:
    """Return the cells in the first row of a metric."""
    name = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
    row = next((line for line in output.splitlines() if line.startswith(f"| {name} ")), None)
    assert row is not None, f"the report has no row for {name}"
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


@dataclass(frozen=True, slots=True)
class Report:
    """Printed text of some commands, and the folder of their files."""

    output: str
    folder: Path

    @property
    def tables(self) -> "Report":
        """The report without the texts before it, in which other commands print some of the metrics of `all`."""
        return Report(self.output.partition("# make bench: ")[2], self.folder)

    def is_complete(self, *figures: Figure) -> bool:
        """Return whether each column of the metrics has a value."""
        return all(all(values(self.output, figure)) for figure in figures)


def check_drain(report: Report) -> None:
    # 100 deliveries may cost PostgreSQL less than one tick of the CPU clock (10 ms); a cost of 0 has no row.
    assert report.tables.is_complete(drain.STEADY, drain.PYTHON)
    assert f"{drain.DATABASE.name} " in report.output, "the cost of PostgreSQL was not read"
    assert values(report.tables.output, drain.REPEATS) == ["0"]


def check_transports(report: Report) -> None:
    assert report.is_complete(transports.RATIO)
    assert len(values(report.output, transports.RATIO)) >= 3


def check_create(report: Report) -> None:
    assert report.tables.is_complete(create.ALONE)
    assert values(report.tables.output, create.RATIO)[1] == "1.00", "the ratio of Flask with an insert is not 1.00"
    ratios = values(report.tables.output, create.RATIO_TO_BARE)
    assert ratios[2] == "1.00", "the ratio to bare tables is of other tables"


def check_latency(report: Report) -> None:
    assert report.tables.is_complete(*latency.IDLE, *latency.LATE)


def check_flight(report: Report) -> None:
    assert report.tables.is_complete(flight.RSS)
    assert values(report.tables.output, flight.MOST) == ["50"]


def check_prune(report: Report) -> None:
    assert sum(value != "" for value in values(report.output, prune.KEPT)) == 2, (
        "pruning was not measured both during a drain and during a load"
    )


def check_lists(report: Report) -> None:
    """A history is built, and every list is measured."""
    assert "building a history" in report.output
    assert (report.folder / "history-1000-100" / "built").exists()
    # Each measurement is printed at once, and again in the report.
    rows = set(re.findall(r"^\| GET .*", report.output, re.M))
    shown = [re.sub(r"\| GET (/[^?,]*).*", r"\1", row) for row in rows]
    counted = re.search(r"\(of ours: (\d+)", report.output)
    documented = {
        path: item["get"].get("parameters", []) for path, item in document()["paths"].items() if "get" in item
    }
    known = re.compile("|".join(re.sub(r"\{\w+\}", "[A-Z]+", path) for path in documented))
    assert len(shown) == 25, "the report does not show the 25 slowest requests"
    assert [name for name in shown if known.fullmatch(name) is None] == []
    # One request per list, and one per documented value of its filters.
    lists = [parameters for path, parameters in documented.items() if "{" not in path]
    tried = len(lists) + sum(len(item["schema"].get("enum", [])) for parameters in lists for item in parameters)
    assert counted
    assert int(counted[1]) >= tried


def check_pages(report: Report) -> None:
    """Each page of the console and its regions are measured."""
    measured = re.findall(r"^\| (?:! )?(/console[^ ]*) ", report.output, re.M)
    assert {"/console", "/console/keys", "/console?region=figures"} <= {*measured}
    assert len(measured) >= 2 * len(all_pages())


def check_isolation(report: Report) -> None:
    assert report.is_complete(isolation.KEPT, isolation.WORST, isolation.TIMES, isolation.HELD)


def check_limits(report: Report) -> None:
    assert any(values(report.output, limits.BUCKET_USED))
    assert any(values(report.output, limits.MOST_OPEN))


def check_keys(report: Report) -> None:
    assert report.is_complete(keys.ALL_STARTED)


def check_overload(report: Report) -> None:
    assert report.is_complete(overload.ACCEPTED, overload.HEALTH)


def check_catch_up(report: Report) -> None:
    assert report.is_complete(*backlogs.LATE)


def check_sizes(report: Report) -> None:
    for role in ("web", "worker", "scheduler", "PostgreSQL"):
        assert len([cell for cell in values(report.output, sizes.cores(role)) if cell]) == len(sizes.RATES)


def check_workflows(report: Report) -> None:
    """No delivery of a killed worker is lost."""
    assert report.is_complete(
        workflows.STARTED, workflows.ENDED, workflows.RATIO, workflows.RATIO_MADE, *workflows.LINK.values()
    )
    assert set(values(report.output, workflows.NEVER)) == {"0"}
    assert set(values(report.output, workflows.KILLED_END)) == {"1"}


def check_ticks(report: Report) -> None:
    """Each number of schedulers materialises all ticks."""
    assert report.is_complete(ticks.RATE, ticks.RATIO)
    assert len(values(report.output, ticks.RATE)) == len(ticks.SCHEDULERS)


def check_soak(report: Report) -> None:
    """The growth of every resource is reported."""
    names = ("worker: threads", "web: descriptors", "PostgreSQL: connections")
    assert report.is_complete(*(Figure(name, "") for name in names))


def check_actors(report: Report) -> None:
    """The actors run once each, from processes that the broker's worker serves."""
    assert report.is_complete(drain.STEADY, drain.FILL, *latency.IDLE, *latency.LATE)
    assert len(re.findall(r"^## Drain of 100 Dramatiq messages", report.output, re.M)) == 2
    assert values(report.output, drain.REPEATS) == ["0"]


# By command and part of the command.
CHECKS: dict[tuple[str, str], Callable[[Report], None]] = {
    ("all", "drain"): check_drain,
    ("all", "transports"): check_transports,
    ("all", "create"): check_create,
    ("all", "latency"): check_latency,
    ("all", "flight"): check_flight,
    ("soak", ""): check_soak,
    ("sizes", ""): check_sizes,
    ("ticks", ""): check_ticks,
    ("workflows", ""): check_workflows,
    ("history", "lists"): check_lists,
    ("history", "prune"): check_prune,
    ("pages", ""): check_pages,
    ("flow", "isolation"): check_isolation,
    ("flow", "limits"): check_limits,
    ("flow", "keys"): check_keys,
    ("flow", "overload"): check_overload,
    ("flow", "catch-up"): check_catch_up,
    ("actors", ""): check_actors,
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder that the user of PostgreSQL can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.sampled
def test_commands_report_every_metric_and_keep_the_report(folder: Path) -> None:
    cases = choice_of(list(CHECKS), len(CHECKS))
    commands, parts = dict.fromkeys(command for command, _ in cases), [part for _, part in cases if part]
    words = ["--commands", ",".join(commands), "--keep", "--results", str(folder), "--only", "ours"]
    words += ["--parts", ",".join(parts)] if parts else []
    output = run("together", *words, *SMALL, *SIZES, *HISTORY, BENCH_HOME=str(folder))
    print(output)  # for pytest, which shows it with a failure
    report = Report(output, folder)
    with Breaches() as breaches:
        for case in cases:
            with breaches.case(*case):
                CHECKS[case](report)
    assert "The machine was " in output
    assert (folder / "together.md").read_text() in output
    assert ET.fromstring((folder / "together.svg").read_text()).tag.endswith("svg")


@pytest.mark.skipif(not environment.has_peers(), reason="the environment of the peers is not built: make bench-drain")
def test_each_peer_delivers() -> None:
    output = run("drain", *SMALL)
    assert len(values(output, drain.STEADY)) == len(("ours", *peer.QUEUES, "aiohttp"))
    assert set(values(output, drain.REPEATS)) == {"0"}


@pytest.mark.skipif(not environment.has_peers(), reason="the environment of the peers is not built: make bench-actors")
def test_each_broker_of_actors_runs_every_message() -> None:
    output = run("actors", *SMALL)
    assert len(values(output, drain.STEADY)) == len(("ours", *PEERS))
    assert set(values(output, drain.REPEATS)) == {"0"}
