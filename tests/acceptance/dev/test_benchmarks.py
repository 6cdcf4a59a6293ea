"""The benchmarks run: each command in the smallest size, and what it reports has every figure. No figure is judged."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import environment
from benchmarks.contenders import peer
from benchmarks.measures import create, drain, flight, latency, prune
from benchmarks.report.results import Figure

pytestmark = pytest.mark.acceptance

SMALL = ("--rounds", "1", "--executions", "100", "--samples", "5", "--seconds", "0.2")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that PostgreSQL's user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def run(*words: str, **env: str) -> str:
    """Run a command of the benchmarks and return what it prints."""
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(
        command, cwd=environment.ROOT, env=os.environ | env, capture_output=True, text=True, check=False, timeout=170
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def values(output: str, figure: Figure) -> list[str]:
    """Return the cells of a figure's first row."""
    name = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
    row = next(line for line in output.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_everything_of_ours_is_measured_and_kept(tmp_path: Path) -> None:
    output = run(
        "all", "--only", "ours", *SMALL, "--in-flight", "50", "--held", "0.5", "--keep", "--results", str(tmp_path)
    )
    for figure in (drain.STEADY, drain.PYTHON, drain.DATABASE, create.ALONE, *latency.IDLE, *latency.LATE, flight.RSS):
        assert all(values(output, figure)), output
    assert values(output, flight.MOST) == ["50"]
    assert values(output, drain.REPEATS) == ["0"]
    assert values(output, create.RATIO)[1] == "1.00", "Flask with an insert is the measure"
    assert "The machine was " in output
    assert (tmp_path / "all.md").read_text() in output
    assert ET.fromstring((tmp_path / "all.svg").read_text()).tag.endswith("svg")


def test_a_history_is_built_and_kept(home: Path) -> None:
    parts = ("--parts", "lists,prune")  # the others are measured above
    output = run("history", *SMALL, *parts, "--finished", "1000", "--future", "100", BENCH_HOME=str(home))
    assert "building a history" in output
    assert (home / "history-1000-100" / "built").exists()
    assert all(values(output, prune.KEPT))
    assert "GET /jobs/CRON-JOB/status" in output


def test_a_soak_says_how_everything_grew() -> None:
    output = run("soak", *SMALL, "--minutes", "0.02")
    for name in ("worker: threads", "web: descriptors", "PostgreSQL: connections"):
        assert all(values(output, Figure(name, "")))


@pytest.mark.skipif(not environment.has_peers(), reason="the peers' environment has not been built: make bench-drain")
def test_each_peer_delivers() -> None:
    output = run("drain", *SMALL)
    assert len(values(output, drain.STEADY)) == len(("ours", *peer.QUEUES, "aiohttp"))
    assert set(values(output, drain.REPEATS)) == {"0"}
