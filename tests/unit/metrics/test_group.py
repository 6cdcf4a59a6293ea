"""Metrics of a process group: merged over all processes, including the counters of finished processes."""

import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.kernel.metrics import series
from app.kernel.metrics.folder import LOCK, Folder, folder_of
from app.kernel.metrics.group import Group
from app.kernel.metrics.merging import MergedMetrics
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Values


class Process:
    """One process of a group; the lock on its open file shows that it lives."""

    def __init__(self, path: Path, most_endpoints: int = 100) -> None:
        self.values = Values(most_endpoints)
        self._folder = Folder(path)
        self.group = Group(self.values, self._folder)

    def die(self) -> None:
        """Leave the files behind, as after kill -9."""
        self._folder.leave()

    def attempt(self, *endpoints: str) -> None:
        for endpoint in endpoints:
            self.values.add(series.STARTED, "HTTP", endpoint)
        self.group.publish()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return lambda **options: Process(tmp_path / "group", **options)


def value(metrics: MergedMetrics, of: Series, *labels: str) -> float:
    return metrics.get(of, {}).get(labels, [0.0])[0]


def by_endpoint(metrics: MergedMetrics) -> dict[str, float]:
    return {endpoint: count for (_, endpoint), (count,) in metrics.get(series.STARTED, {}).items()}


def test_counters_outlive_their_process_and_gauges_do_not(start: Start) -> None:
    first, second = start(), start()
    for process, count in ((first, 3), (second, 4)):
        process.values.add(series.RELEASED, amount=count)
        process.values.observe(series.COMPLETE_SECONDS, 0.002)
        process.values.read(series.IN_FLIGHT, lambda count=count: count)
        process.values.read(series.UTILIZATION, lambda count=count: count)
        process.values.replace(series.CHORE_AT, {("promote",): count})
        process.group.publish()
    merged = second.group.merged_metrics()
    assert value(merged, series.RELEASED) == value(merged, series.IN_FLIGHT) == 7
    assert value(merged, series.UTILIZATION) == 3.5
    assert value(merged, series.CHORE_AT, "promote") == 4, "not the value of the newest process"
    assert value(merged, series.PROCESSES) == 2

    first.die()
    third = start()
    for process in (second, third, second):  # the last pass runs after the files of `first` were removed
        merged = process.group.merged_metrics()
        assert value(merged, series.RELEASED) == 7
        assert sum(merged[series.COMPLETE_SECONDS][()][1:]) == 2
        assert value(merged, series.IN_FLIGHT) == 4
    second.die()
    assert value(third.group.merged_metrics(), series.RELEASED) == 7
    assert value(third.group.merged_metrics(), series.PROCESSES) == 1


def test_very_many_values_with_odd_names_are_kept(start: Start) -> None:
    process = start(most_endpoints=10_000)
    odd = [f'"quoted" \\ line\n{number}' for number in range(1_201)]
    process.attempt(*odd)
    process.die()
    assert by_endpoint(start(most_endpoints=10_000).group.merged_metrics()) == dict.fromkeys(odd, 1)


def test_crash_while_adding_up_counts_nothing_twice(start: Start, tmp_path: Path) -> None:
    first, second = start(), start()
    first.values.add(series.RELEASED, amount=3)
    first.group.publish()
    shutil.copytree(tmp_path / "group", tmp_path / "before")
    first.die()
    assert value(second.group.merged_metrics(), series.RELEASED) == 3
    # Restore the files, as if the process had crashed between adding the counters up and removing the files.
    shutil.copytree(tmp_path / "before", tmp_path / "group", dirs_exist_ok=True)
    assert value(second.group.merged_metrics(), series.RELEASED) == 3
    assert value(second.group.merged_metrics(), series.RELEASED) == 3


def test_locked_folder_of_a_frozen_process_blocks_no_other_process(start: Start, tmp_path: Path) -> None:
    first, second = start(), start()
    first.values.add(series.RELEASED, amount=3)
    first.group.publish()
    first.die()
    second.group.publish()
    turn = os.open(tmp_path / "group" / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(turn, fcntl.LOCK_EX)
    second.attempt("new")
    assert value(second.group.merged_metrics(), series.RELEASED) == 3
    assert by_endpoint(second.group.merged_metrics()) == {}
    os.close(turn)
    assert by_endpoint(second.group.merged_metrics()) == {"new": 1}


def test_limit_on_endpoints_holds_for_the_group_and_labels_stay(start: Start) -> None:
    first, second = start(most_endpoints=2), start(most_endpoints=2)
    first.attempt("a", "b", "c")
    second.attempt("x", "a", "a")
    assert by_endpoint(second.group.merged_metrics()) == {"a": 3, "b": 1, "other": 2}
    first.die()
    third = start(most_endpoints=2)
    third.attempt("y", "b")
    assert by_endpoint(third.group.merged_metrics()) == {"a": 3, "b": 2, "other": 3}


def test_older_values_never_overwrite_newer_values(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    busy, other = start(), start()
    counts: list[float] = []

    def publish() -> None:
        for _ in range(200):
            busy.attempt("a")

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counts.append(by_endpoint(other.group.merged_metrics()).get("a", 0.0))
    for thread in threads:
        thread.join()
    assert counts == sorted(counts), "a counter has decreased"
    assert by_endpoint(other.group.merged_metrics()) == {"a": 800}
    assert caplog.messages == []


def test_process_without_its_folder_reports_only_its_own_metrics(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "group").write_text("not a folder")
    alone = start()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            alone.values.add(series.RELEASED)
            merged = alone.group.merged_metrics()
    assert value(merged, series.RELEASED) == 3
    assert len(caplog.records) == 1, "the warning must be logged once"


def test_only_folders_of_dead_groups_are_removed(tmp_path: Path) -> None:
    mine = folder_of("worker", tmp_path)
    mine.join()
    living = Folder(tmp_path / "worker-1-0")
    living.join()
    dead = Folder(tmp_path / f"web-{2**22}-1")
    dead.join()
    dead.leave()
    new = Folder(tmp_path / f"web-{2**22}-2")
    new.join()
    new.leave()
    for path in tmp_path.iterdir():
        if path != new.path:
            os.utime(path, (0, 0))
    assert folder_of("worker", tmp_path).path == mine.path
    assert {path.name for path in tmp_path.iterdir()} == {mine.path.name, living.path.name, new.path.name}
