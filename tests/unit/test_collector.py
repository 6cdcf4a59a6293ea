"""Garbage collector of a process: it skips the objects that exist at the start, and still collects cycles."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.kernel.collector import THRESHOLDS, spare_what_is_there


@pytest.fixture(autouse=True)
def _restore_the_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)  # what is frozen stays so: later collections of this session would visit the test modules


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_collector_skips_the_objects_that_exist_at_the_start() -> None:
    gc.collect()  # what earlier tests left is not spared
    tracked, frozen, searches = len(gc.get_objects()), gc.get_freeze_count(), gc.get_stats()[2]["collections"]
    spare_what_is_there()
    assert gc.get_stats()[2]["collections"] == searches, "a search takes a tenth of a worker's start"
    assert gc.get_freeze_count() - frozen > tracked / 2
    assert len(gc.get_objects()) < tracked / 2
    assert gc.get_threshold() == THRESHOLDS


def test_new_cycles_are_still_collected() -> None:
    spare_what_is_there()
    cycle = Cycle()
    known = weakref.ref(cycle)
    del cycle
    gc.collect()
    assert known() is None
