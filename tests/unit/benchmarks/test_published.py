"""Tables of the documents, written between their marks from a run."""

from pathlib import Path

import pytest

from benchmarks.environment import ROOT
from benchmarks.measures import create, drain, latency, sizes
from benchmarks.report import published
from benchmarks.report.results import Section
from benchmarks.report.run import Run


@pytest.fixture
def runs() -> dict[str, Run]:
    whole, sized = Run("all"), Run("sizes")
    section = whole.section("everything")
    for name, value in (("ours", 6371.6), ("pgqueuer", 12345.0)):
        section.add(drain.STEADY, name, value)
        section.add(create.RATIO, name, 0.957)
        section.add(create.RATIO_TO_BARE, name, 0.714)
        for figure in (*latency.IDLE, *latency.LATE):
            section.add(figure, name, value / 1000)
    for rate in sizes.RATES:
        add_sizes(sized.section(f"{rate}") if not sized.sections else sized.sections[0], rate)
    return {"all": whole, "sizes": sized, "flow": Run("flow")}


def add_sizes(section: Section, rate: int) -> None:
    section.add(sizes.ACCEPTED, f"ours, {rate}", rate * 0.9)
    for role in ("web", "worker", "scheduler", "PostgreSQL"):
        section.add(sizes.cores(role), f"ours, {rate}", rate / 1000)
        section.add(sizes.memory_of(role), f"ours, {rate}", 50.4)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder with copies of the documents."""
    (tmp_path / "docs/how-to").mkdir(parents=True)
    for name in ("README.md", "docs/how-to/sizing.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_tables_replace_the_earlier_tables_and_nothing_else(runs: dict[str, Run], documents: Path) -> None:
    before = [(documents / name).read_text() for name in ("README.md", "docs/how-to/sizing.md")]
    changed = published.write(documents, runs)
    readme, sizing = (path.read_text() for path in changed)
    assert "| HTTP deliveries a second, steady part of a backlog | 6,370 | 12,340 |  |  |  |" in readme
    assert "| idle: accepted to receiver, p50, p99, ms | 6.4, 6.4 | 12, 12 |" in readme
    assert "0.96 of the rate of Flask with an insert into the same tables, and 0.71" in " ".join(readme.split())
    assert runs["all"].commit in readme
    assert "| process | 9 jobs a second | 90 jobs a second | 900 jobs a second | memory |" in sizing
    assert "| scheduler | 0.01 | 0.10 | 1.00 | 50 MiB |" in sizing
    for old, new in zip(before, (readme, sizing), strict=True):
        assert new.partition("<!-- make")[0] == old.partition("<!-- make")[0]
        assert new.partition("<!-- end")[2] == old.partition("<!-- end")[2]
    assert published.write(documents, runs) == changed, "the marks are gone"


def test_document_without_marks_is_refused(runs: dict[str, Run], documents: Path) -> None:
    (documents / "README.md").write_text("no marks")
    with pytest.raises(ValueError, match="no single place"):
        published.write(documents, runs)
