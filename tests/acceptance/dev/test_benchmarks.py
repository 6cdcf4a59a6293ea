"""Benchmarks: each command runs in its smallest size and reports every metric. No value is judged."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import environment
from benchmarks.contenders import peer
from benchmarks.measures import create, drain, flight, latency, prune, sizes, workflows
from benchmarks.measures.flow import backlogs, isolation, keys, limits, overload
from benchmarks.report.results import Figure
from tests.integration.http.document import document

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

SMALL = ("--rounds", "1", "--executions", "100", "--samples", "5", "--seconds", "0.2", "--steps", "1000")

SIZES = ("--in-flight", "50", "--held", "1", "--minutes", "0.02", "--size", "smallest")
HISTORY = ("--finished", "1000", "--future", "100", "--filters", "1")


@dataclass(frozen=True, slots=True)
class Runs:
    """Output of two concurrent runs of the commands, and the folder of their files. The commands mostly wait."""

    all_and_soak: str
    history_and_flow: str
    kept: Path


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(2) as pool:
        kept = Path(directory)
        kept.chmod(0o755)  # the user of PostgreSQL must be able to enter the folder
        outputs = [
            pool.submit(together, "all,soak,sizes,workflows", "--keep", "--results", directory),
            pool.submit(together, "history,flow", BENCH_HOME=directory),
        ]
        yield Runs(outputs[0].result(), outputs[1].result(), kept)


def together(commands: str, *words: str, **env: str) -> str:
    return run("together", "--commands", commands, "--only", "ours", *SMALL, *SIZES, *HISTORY, *words, **env)


def run(*words: str, **env: str) -> str:
    """Run a command of the benchmarks and return its output."""
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(
        command, cwd=environment.ROOT, env=os.environ | env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def values(output: str, figure: Figure) -> list[str]:
    """Return the cells in the first row of a metric."""
    name = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
    row = next(line for line in output.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_every_metric_of_the_product_is_measured_and_kept(runs: Runs) -> None:
    output = runs.all_and_soak
    for figure in (drain.STEADY, drain.PYTHON, drain.DATABASE, create.ALONE, *latency.IDLE, *latency.LATE, flight.RSS):
        assert all(values(output, figure)), output
    assert values(output, flight.MOST) == ["50"]
    assert values(output, drain.REPEATS) == ["0"]
    assert values(output, create.RATIO)[1] == "1.00", "the ratio of Flask with an insert is not 1.00"
    assert values(output, create.RATIO_TO_BARE)[2] == "1.00", "the ratio to bare tables is of other tables"
    assert "The machine was " in output
    assert (runs.kept / "together.md").read_text() in output
    assert ET.fromstring((runs.kept / "together.svg").read_text()).tag.endswith("svg")


def test_history_is_built_and_every_list_is_measured(runs: Runs) -> None:
    assert "building a history" in runs.history_and_flow
    assert (runs.kept / "history-1000-100" / "built").exists()
    assert sum(value != "" for value in values(runs.history_and_flow, prune.KEPT)) == 2, (
        "pruning was not measured both during a drain and during a load"
    )
    # Each measurement is printed at once, and again in the report.
    rows = set(re.findall(r"^\| GET .*", runs.history_and_flow, re.M))
    shown = [re.sub(r"\| GET (/[^?,]*).*", r"\1", row) for row in rows]
    counted = re.search(r"\(of ours: (\d+)", runs.history_and_flow)
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


def test_flow_control_is_measured(runs: Runs) -> None:
    isolation_metrics = (isolation.KEPT, isolation.WORST, isolation.TIMES, isolation.HELD)
    for figure in (*isolation_metrics, keys.ALL_STARTED, overload.ACCEPTED, overload.HEALTH, *backlogs.LATE):
        assert all(values(runs.history_and_flow, figure)), runs.history_and_flow
    assert any(values(runs.history_and_flow, limits.BUCKET_USED)), runs.history_and_flow
    assert any(values(runs.history_and_flow, limits.MOST_OPEN)), runs.history_and_flow


def test_sizes_are_measured_at_each_rate(runs: Runs) -> None:
    for role in ("web", "worker", "scheduler", "PostgreSQL"):
        assert len([cell for cell in values(runs.all_and_soak, sizes.cores(role)) if cell]) == len(sizes.RATES)


def test_workflow_loses_no_delivery_of_a_killed_worker(runs: Runs) -> None:
    for figure in (workflows.STARTED, workflows.ENDED, workflows.RATIO, *workflows.LINK.values()):
        assert all(values(runs.all_and_soak, figure)), runs.all_and_soak
    assert set(values(runs.all_and_soak, workflows.NEVER)) == {"0"}
    assert set(values(runs.all_and_soak, workflows.KILLED_END)) == {"1"}


def test_soak_reports_the_growth_of_every_resource(runs: Runs) -> None:
    for name in ("worker: threads", "web: descriptors", "PostgreSQL: connections"):
        assert all(values(runs.all_and_soak, Figure(name, "")))


@pytest.mark.skipif(not environment.has_peers(), reason="the environment of the peers is not built: make bench-drain")
def test_each_peer_delivers() -> None:
    output = run("drain", *SMALL)
    assert len(values(output, drain.STEADY)) == len(("ours", *peer.QUEUES, "aiohttp"))
    assert set(values(output, drain.REPEATS)) == {"0"}
