"""The collector of cycles in a process: it does not look at what was there from the beginning, but still collects."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.kernel.collector import THRESHOLDS, spare_what_is_there


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_only_what_is_new_is_looked_at() -> None:
    tracked = len(gc.get_objects())
    spare_what_is_there()
    assert gc.get_freeze_count() > tracked / 2
    assert len(gc.get_objects()) < tracked / 2
    assert gc.get_threshold() == THRESHOLDS


def test_cycles_are_collected_all_the_same() -> None:
    spare_what_is_there()
    cycle = Cycle()
    known = weakref.ref(cycle)
    del cycle
    gc.collect()
    assert known() is None
