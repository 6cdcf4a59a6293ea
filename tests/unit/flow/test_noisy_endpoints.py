"""One endpoint that fails where others work: the decision compared with a model that keeps whose each result is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.breakers.result_counts import Results
from app.features.breakers.rules import (
    SLOT_SECONDS,
    BreakerSettings,
    Counts,
    Source,
    Standing,
    decide_together,
    slot_at,
)
from tests.unit.flow.test_breaker import NOW, T0, settings_strategy


@pytest.mark.parametrize(
    ("each", "opens"),
    [
        pytest.param({"bad": {NOW: (0, 30)}, "": {NOW: (1, 0)}}, False, id="it works for the others"),
        pytest.param({"bad": {NOW: (0, 30)}, "good": {NOW: (1, 0)}}, False, id="it works for one that is told apart"),
        pytest.param({"bad": {NOW: (0, 30)}}, True, id="there are no others"),
        pytest.param({"bad": {NOW: (0, 30)}, "": {NOW: (0, 1)}}, True, id="it fails for the others too"),
        pytest.param({"bad": {NOW: (0, 30)}, "": {NOW: (3, 4)}}, True, id="it fails more often for the others too"),
        pytest.param({"bad": {NOW: (0, 30)}, "": {NOW - 1: (20, 0)}}, True, id="it worked before it began to fail"),
        pytest.param(
            {"bad": {NOW - 4: (0, 1), NOW - 3: (1, 0), NOW: (0, 30)}, "": {NOW - 2: (9, 0)}}, True,
            id="a failure that was followed by successes is not when it began",
        ),
        pytest.param(
            {"bad": {NOW - 4: (0, 1), NOW: (0, 30)}, "": {NOW - 3: (1, 0)}}, False, id="it has failed for long",
        ),
        pytest.param({"": {NOW: (9, 30)}}, True, id="by many"),
        pytest.param({"bad": {NOW: (0, 30)}, "worse": {NOW: (0, 40)}}, True, id="by two"),
    ],
)  # fmt: skip
def test_one_endpoint_alone_does_not_speak_for_a_target(each: dict[str, Counts], opens: bool) -> None:
    """Its path may be wrong, or its time limit too short."""
    for workers in (["wrk_0"], ["wrk_0", "wrk_1"]):
        counted = {Source(worker, endpoint): counts for worker in workers for endpoint, counts in each.items()}
        assert (decide_together(Standing(), counted, BreakerSettings(), T0) is not None) is opens


noisy_steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 25]), st.integers(0, 14), st.sampled_from(["ok", "failed", *["as ever"] * 8]),
        st.sampled_from("abcdef"), st.integers(0, 1),
    ),
    min_size=10, max_size=60,
)  # fmt: skip


@given(settings_strategy, noisy_steps, st.integers(1, 6), st.sets(st.sampled_from("abcdef"), max_size=3))
def test_it_opens_as_a_model_does_that_keeps_of_every_result_whose_it_is(
    settings: BreakerSettings, given_steps: list[tuple[int, int, str, str, int]], endpoints: int, bad: set[str]
) -> None:
    now, known = T0, list[tuple[float, str, bool]]()
    standing, workers = Standing(), [Results(NOW), Results(NOW)]
    for seconds, number, result, name, worker in given_steps:
        endpoint, now = "abcdef"["abcdef".index(name) % endpoints], now + seconds
        fails = result == "failed" or (result == "as ever" and endpoint in bad)
        for _ in range(number):
            now += 0.01
            known.append((now, endpoint, fails))
            for results in workers:
                results.turn_to(slot_at(now), settings.slots)
            workers[worker].tally[fails] += 1
            workers[worker].by_endpoint[endpoint][fails] += 1
        each = {
            Source(f"wrk_{at}", name): counts
            for at, results in enumerate(workers)
            for name, counts in results.told_apart().items()
        }
        alike = {Source(f"wrk_{at}"): results.total() for at, results in enumerate(workers)}
        plain = decide_together(standing, alike, settings, now) is not None
        opens = decide_together(standing, each, settings, now) is not None
        _compare(known, settings, now, plain=plain, opens=opens)
        if opens:
            now += settings.open_for_ms / 1000
            standing, known = Standing(since_slot=slot_at(now)), []
            for results in workers:
                results.begin(slot_at(now))


def _compare(
    known: list[tuple[float, str, bool]], settings: BreakerSettings, now: float, *, plain: bool, opens: bool
) -> None:
    """Compare a decision with the results one by one; `plain` is the one that does not ask whose they are."""
    assert plain or not opens
    longest = now - settings.window_ms / 1000 - 2 * SLOT_SECONDS
    counted = [(at, endpoint, failed) for at, endpoint, failed in known if at > longest]
    users = {endpoint for _, endpoint, _ in counted}
    failing = {endpoint for _, endpoint, failed in counted if failed}
    if len(users) < 2 or all(failed for _, _, failed in counted):
        assert opens == plain, "as quickly as ever"
    if len(failing) == 1 and any(slot_at(at) == slot_at(now) for at, endpoint, _ in counted if endpoint not in failing):
        assert not opens, "it works for the others now"
    if plain and not opens:
        assert any(any(not failed for _, endpoint, failed in counted if endpoint != noisy) for noisy in failing), (
            "nobody says that it works"
        )
