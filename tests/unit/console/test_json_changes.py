"""Changes between two JSON values, as the pages of jobs show them."""

from app.console.views.json_changes import changes_of
from tests.cases import each_case


@each_case(
    ("before", "after", "found"),
    [
        ([1], [True], ("input.a", "[1]", "[true]")),
        ("1", 1, ("input.a", '"1"', "1")),
        ("b", "b ", ("input.a", '"b"', '"b "')),
        (None, "", ("input.a", "null", '""')),
    ],
)
def test_values_are_compared_as_json_and_written_differently(
    before: object, after: object, found: tuple[str, str, str]
) -> None:
    (change,) = changes_of({"input": {"a": before}}, {"input": {"a": after}})
    assert (change.place, change.before, change.after) == found
    assert changes_of({"a": [{"x": 1.0, "y": 2}]}, {"a": [{"y": 2, "x": 1}]}) == []


def test_long_texts_are_cut_around_their_first_difference() -> None:
    (change,) = changes_of({"text": "x" * 1000 + "a"}, {"text": "x" * 1000 + "b"})
    assert (change.before, change.after) == (f"…{'x' * 200}a", f"…{'x' * 200}b")
    (added,) = changes_of({}, {"reason": None})
    assert (added.before, added.after) == ("", "null")
