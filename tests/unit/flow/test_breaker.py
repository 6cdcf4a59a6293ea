"""Breaker: its settings, and its decisions compared with a model that keeps every result."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.breakers.rules import (
    SLOT_SECONDS,
    BreakerSettings,
    Counts,
    Reason,
    Source,
    Standing,
    after_probe,
    decide,
    decide_together,
    slot_at,
)
from schema.states import BreakerState

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
T0 = 1_790_000_000.0
SHOWN = {"failure_ratio": 0.5, "min_results": 10, "window": "1m", "open_for": "30s"}


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (None, SHOWN),
        ({}, SHOWN),
        ("off", "off"),
        ({"failure_ratio": 1, "window": "10m"}, SHOWN | {"failure_ratio": 1, "window": "10m"}),
        (
            {"failure_ratio": 0.01, "min_results": 1, "window": "10s", "open_for": "1h"},
            {"failure_ratio": 0.01, "min_results": 1, "window": "10s", "open_for": "1h"},
        ),
    ],
)
def test_settings_are_shown_with_their_defaults(stored: Any, shown: Any) -> None:
    settings = BreakerSettings.from_json(stored)
    assert settings.as_json() == shown
    assert BreakerSettings.from_json(settings.as_json()) == settings


def test_only_settings_of_its_own_make_a_breaker_of_its_own() -> None:
    keys = [
        BreakerSettings.from_json(stored).key_of("http:host:80")
        for stored in (None, SHOWN, {"min_results": 3}, {"min_results": 3}, {"min_results": 4})
    ]
    assert keys[0] == keys[1] == "http:host:80"
    assert keys[2] == keys[3]
    assert len(set(keys)) == 3


@dataclass(slots=True)
class SlowModel:
    """Every result with its instant, and the state that they lead to."""

    settings: BreakerSettings
    closed_at: float = T0
    results: list[tuple[float, bool]] = field(default_factory=list)

    def verdicts(self, now: float) -> set[bool]:
        """Whether it is time to open: by each span of at least a window, and less than two slots more."""
        window = self.settings.window_ms / 1000
        known = [result for result in self.results if result[0] >= self.closed_at]
        longest = [at for at, _ in known if now - window - 2 * SLOT_SECONDS < at]
        edges = [*(at for at in longest if at < now - window), now - window]
        found = {self._is_too_much([failed for at, failed in known if at >= edge]) for edge in edges}
        # In the slot in which it was closed nothing may be held against it that was counted before.
        return found | ({False} if now - self.closed_at < SLOT_SECONDS else set())

    def _is_too_much(self, failures: list[bool]) -> bool:
        if len(failures) < self.settings.min_results:
            return False
        failed = sum(failures)
        return failed == len(failures) or failed > self.settings.failure_ratio * len(failures)


settings_strategy = st.builds(
    BreakerSettings,
    failure_ratio=st.sampled_from([0.01, 0.25, 0.5, 0.9, 1.0]),
    min_results=st.integers(1, 12),
    window_ms=st.sampled_from([10_000, 15_000, 60_000]),
    open_for_ms=st.sampled_from([1_000, 30_000]),
)
steps = st.lists(
    st.tuples(st.integers(0, 25), st.integers(0, 14), st.sampled_from(["ok", "failed"])), min_size=1, max_size=60
)


@given(settings_strategy, steps)
def test_it_opens_when_a_model_that_keeps_every_result_does(
    settings: BreakerSettings, given_steps: list[tuple[int, int, str]]
) -> None:
    now, model = T0, SlowModel(settings)
    counts: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    standing = Standing()
    for seconds, number, result in given_steps:
        now += seconds
        for _ in range(number):
            now += 0.01
            failed = result == "failed"
            model.results.append((now, failed))
            ok, bad = counts[slot_at(now)]
            counts[slot_at(now)] = (ok + (not failed), bad + failed)
            transition = decide(standing, counts, settings, now)
            assert (transition is not None) in model.verdicts(now)
            if transition is not None:
                assert (transition.to, transition.reason) == (OPEN, Reason.FAILURES)
                assert transition.for_ms == settings.open_for_ms
                now = _reopened_and_closed(settings, now)
                model.closed_at, standing = now, Standing(since_slot=slot_at(now))
                counts.pop(slot_at(now), None)  # what others have of earlier slots stays


def _reopened_and_closed(settings: BreakerSettings, now: float) -> float:
    """Pass through open and half open, where counts mean nothing; returns when it is closed again."""
    failures: Counts = {slot_at(now): (0, 1000)}
    standing = Standing(OPEN, now + settings.open_for_ms / 1000)
    assert decide(standing, failures, settings, standing.until - 0.001) is None
    probe = decide(standing, failures, settings, standing.until)
    assert probe is not None
    assert (probe.to, probe.reason) == (HALF_OPEN, Reason.PROBE)
    half_open = Standing(HALF_OPEN, standing.until + 5)
    assert decide(half_open, failures, settings, half_open.until - 0.001) is None
    lost = decide(half_open, failures, settings, half_open.until)
    assert lost is not None
    assert lost.to is HALF_OPEN
    return half_open.until


def test_a_probe_closes_or_opens_again() -> None:
    settings = BreakerSettings(open_for_ms=7_000)
    assert after_probe(False, settings) == (CLOSED, Reason.PROBE_SUCCEEDED, 0, None, None)
    assert after_probe(True, settings) == (OPEN, Reason.PROBE_FAILED, 7_000, None, None)
    # Nothing was learnt: who has something to send may try at once.
    assert after_probe(None, settings) == (OPEN, Reason.PROBE_UNUSED, 0, None, None)


def test_the_figures_of_the_defaults() -> None:
    """More than half of at least ten in a minute."""
    slot = slot_at(T0)
    for ok, failed, opens in [(5, 5, False), (4, 5, False), (4, 6, True), (0, 9, False), (0, 10, True), (50, 51, True)]:
        transition = decide(Standing(), {slot: (ok, failed)}, BreakerSettings(), T0)
        assert (transition is not None) is opens, (ok, failed)


@pytest.mark.parametrize(("earlier", "opens"), [(6, True), (7, False)])
def test_what_is_older_than_the_window_does_not_count(earlier: int, opens: bool) -> None:
    counts = {slot_at(T0) - earlier: (0, 10)}
    assert (decide(Standing(), counts, BreakerSettings(), T0) is not None) is opens


NOW = slot_at(T0)


@pytest.mark.parametrize(
    ("each", "opens"),
    [
        pytest.param([{NOW: (0, 30)}, {NOW: (9, 0)}], True, id="the others have too few results"),
        pytest.param([{NOW: (0, 30)}, {NOW: (6, 0)}, {NOW: (6, 0)}], False, id="it works for the others"),
        pytest.param([{NOW: (0, 30)}, {NOW: (2, 8)}], True, id="it fails for the others too"),
        pytest.param([{NOW: (0, 30)}, {NOW - 1: (20, 0)}], True, id="it worked before it began to fail"),
        pytest.param([{NOW - 1: (0, 1), NOW: (0, 30)}, {NOW - 1: (20, 0)}], True, id="idle since about then"),
        pytest.param([{NOW: (0, 12)}], True, id="there are no others"),
        pytest.param([{NOW: (0, 4)}, {NOW: (0, 4)}, {NOW: (0, 4)}], True, id="enough only together"),
        pytest.param([{NOW - 7: (0, 90), NOW: (0, 6)}, {NOW: (0, 5)}], True, id="what is too old counts for nobody"),
    ],
)
def test_one_process_alone_does_not_speak_for_a_target(each: list[Counts], opens: bool) -> None:
    """Its own network may be broken, and then all targets seem to fail."""
    counted = {Source(f"wrk_{number}"): counts for number, counts in enumerate(each)}
    for order in (counted, dict(reversed(counted.items()))):
        assert (decide_together(Standing(), order, BreakerSettings(), T0) is not None) is opens
