"""Differences of definitions: one line for each value, by its path."""

from app.console.views.difference import LONGEST, differences
from tests.cases import each_case


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


@each_case(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1, "reason": None}, ("spec.reason", "", "null")),
        ({"a": True}, {"a": 1}, ("spec.a", "true", "1")),
        ({"a": [1]}, {"a": [True]}, ("spec.a", "[1]", "[true]")),
        ({"a": "1"}, {"a": 1}, ("spec.a", '"1"', "1")),
        ({"a": "b"}, {"a": "b "}, ("spec.a", '"b"', '"b "')),
        ({"a": {}}, {"a": {}, "b": ""}, ("spec.b", "", '""')),
        ({"a": {}}, {"a": {"b": {}}}, ("spec.a", "{}", "")),
    ],
)
def test_values_are_compared_as_json(before: object, after: object, found: tuple[str, str, str]) -> None:
    first = differences({"spec": before, "config": None}, {"spec": after})[0]
    assert (first.path, first.before, first.after) == found
    assert differences({"spec": {"a": [{"x": 1.0, "y": 2}]}}, {"spec": {"a": [{"y": 2, "x": 1}]}}) == []


def test_name_with_a_dot_is_no_path() -> None:
    found = differences({"spec": {"a.b": 1, "": 1}}, {"spec": {"a": {"b": 1}, '"a': {'b"': 1}}})
    assert [each.path for each in found] == ['spec.""', r'spec."\"a"."b\""', "spec.a.b", 'spec."a.b"']


def test_long_texts_are_cut_around_their_first_difference() -> None:
    same = "x" * 1000
    (found,) = differences({"body": f"{same}a{same}"}, {"body": f"{same}b"})
    assert (found.before, found.after) == (f"…{'x' * 200}a{'x' * 199}…", f"…{'x' * 200}b")
    (longer,) = differences({"body": same}, {"body": same + same})
    assert longer.before != longer.after
    (listed,) = differences({"l": [same, {"a": 1, "b": 2}]}, {"l": [same, {"b": 3, "a": 1}]})
    assert listed.before.endswith('"b":2}]')
    assert listed.after.endswith('"b":3}]')
