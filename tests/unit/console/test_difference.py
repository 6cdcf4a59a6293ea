"""Differences of definitions: one line for each value, by its path."""

from app.console.views.difference import LONGEST, differences


def test_values_are_compared_by_their_paths() -> None:
    before = {"spec": {"url": "https://a", "timeout_ms": 5000, "headers": {"a": "1"}}, "config": None, "callbacks": {}}
    after = {"spec": {"url": "https://a", "timeout_ms": 10_000}, "config": "live", "callbacks": {}}
    found = [(each.path, each.before, each.after) for each in differences(before, after)]
    assert found == [("config", "", "live"), ("spec.headers.a", "1", ""), ("spec.timeout_ms", "5000", "10000")]
    assert differences(after, after) == []


def test_lists_are_compared_as_a_whole_and_long_values_are_cut() -> None:
    (found,) = differences({"retry_on": ["5xx"]}, {"retry_on": ["5xx", "TIMEOUT"]})
    assert (found.before, found.after) == ('["5xx"]', '["5xx","TIMEOUT"]')
    (cut,) = differences({}, {"body": "x" * 1000})
    assert len(cut.after) == LONGEST + 1
