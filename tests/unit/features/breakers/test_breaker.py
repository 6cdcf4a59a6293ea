"""Breakers: settings, and decisions compared with a model that keeps every result."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.breakers.rules import BreakerSettings, Counts, Reason
from schema.states import BreakerState

DEFAULTS = BreakerSettings()
SHOWN = {"failure_ratio": 0.5, "min_results": 10, "window": "1m", "open_for": "30s"}


@pytest.mark.parametrize(
    ("stored", "settings"),
    [
        (None, DEFAULTS),
        ({}, DEFAULTS),
        (SHOWN, DEFAULTS),
        ({"window": 7}, DEFAULTS),
        ("off", BreakerSettings(is_off=True)),
        ({"failure_ratio": 1, "window": "10m"}, BreakerSettings(failure_ratio=1, window_ms=600_000)),
        ({"min_results": 1, "open_for": "1h"}, BreakerSettings(min_results=1, open_for_ms=3_600_000)),
    ],
)
def test_settings_have_defaults(stored: Any, settings: BreakerSettings) -> None:
    assert BreakerSettings.of("endpoint", stored) == settings


@pytest.mark.parametrize("stored", [{"other": 1}, "on", 3])
def test_invalid_settings_of_an_edited_row_are_the_defaults(stored: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert BreakerSettings.of("endpoint", stored) == DEFAULTS
    assert caplog.messages[0].startswith("invalid breaker settings of endpoint endpoint: ")


def test_endpoint_with_different_settings_has_a_separate_breaker() -> None:
    keys = [
        BreakerSettings.of("endpoint", stored).key_of("http:host:80")
        for stored in (None, SHOWN, {"min_results": 3}, {"min_results": 3}, {"min_results": 4})
    ]
    assert keys[0] == keys[1] == "http:host:80"
    assert keys[2] == keys[3]
    assert len(set(keys)) == 3
    inline = [BreakerSettings.of("endpoint", stored).key_of("http:host:80", is_inline=True) for stored in (None, SHOWN)]
    assert inline == ["http:host:80~inline"] * 2


@pytest.mark.parametrize(
    ("ok", "failed", "opens"),
    [(5, 5, False), (4, 5, False), (4, 6, True), (0, 9, False), (0, 10, True), (50, 51, True), (10, 0, False)],
)
def test_breaker_opens_when_more_than_half_of_at_least_ten_fail(ok: int, failed: int, opens: bool) -> None:
    transition = DEFAULTS.opened_by({"endpoint": Counts(ok, failed)})
    expected = (BreakerState.OPEN, Reason.FAILURES, 30_000, failed, ok + failed)
    assert transition == (expected if opens else None)


@pytest.mark.parametrize(("ok", "opens"), [(0, True), (1, False)])
def test_ratio_of_one_opens_only_when_all_fail(ok: int, opens: bool) -> None:
    assert (BreakerSettings(failure_ratio=1).opened_by({"endpoint": Counts(ok, 20)}) is not None) is opens


@pytest.mark.parametrize(
    ("by_endpoint", "opens"),
    [
        pytest.param({"bad": (0, 30), "good": (1, 0)}, False, id="another endpoint succeeds"),
        pytest.param({"bad": (0, 30), "": (1, 0)}, False, id="unnamed endpoints succeed"),
        pytest.param({"bad": (0, 30)}, True, id="only one endpoint"),
        pytest.param({"bad": (0, 30), "idle": (0, 0)}, True, id="other endpoints are idle"),
        pytest.param({"bad": (0, 30), "other": (0, 1)}, True, id="another endpoint fails too"),
        pytest.param({"bad": (0, 30), "other": (3, 4)}, True, id="another endpoint fails more often than allowed"),
        pytest.param({"bad": (0, 30), "other": (4, 4)}, False, id="another endpoint fails as often as allowed"),
        pytest.param({"": (9, 30)}, True, id="very many endpoints"),
        pytest.param({"bad": (0, 30), "worse": (0, 40), "good": (9, 0)}, True, id="two of three endpoints fail"),
        pytest.param(dict.fromkeys("abcdefghij", (0, 1)), True, id="each endpoint fails once"),
    ],
)
def test_one_endpoint_that_fails_alone_opens_no_breaker(by_endpoint: dict[str, tuple[int, int]], opens: bool) -> None:
    """The path of that endpoint may be wrong, or its time limit too short."""
    counts = {name: Counts(*pair) for name, pair in by_endpoint.items()}
    for order in (counts, dict(reversed(counts.items()))):
        assert (DEFAULTS.opened_by(order) is not None) is opens


results = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40)
settings_strategy = st.builds(
    BreakerSettings, failure_ratio=st.sampled_from([0.01, 0.25, 0.5, 0.9, 1.0]), min_results=st.integers(1, 12)
)


@given(settings_strategy, results)
def test_breaker_opens_when_too_many_fail_with_and_without_any_single_endpoint(
    settings: BreakerSettings, each: list[tuple[str, bool]]
) -> None:
    """The decision is compared with a model that keeps every result."""

    def is_too_much(failures: list[bool]) -> bool:
        return any(failures) and (all(failures) or sum(failures) > settings.failure_ratio * len(failures))

    counts = {
        name: Counts(each.count((name, False)), each.count((name, True))) for name in {endpoint for endpoint, _ in each}
    }
    transition = settings.opened_by(counts)
    everything = [failed for _, failed in each]
    if transition is None:
        most = max((counts[name].failed for name in counts), default=0)
        noisy = [name for name in counts if counts[name].failed == most]
        rest = [[failed for name, failed in each if name != excluded] for excluded in noisy]
        assert (
            len(each) < settings.min_results
            or not is_too_much(everything)
            or any(remaining and not is_too_much(remaining) for remaining in rest)
        )
    else:
        assert len(each) >= settings.min_results
        assert is_too_much(everything)
        assert (transition.failed, transition.results) == (sum(everything), len(each))
