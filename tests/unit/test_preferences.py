"""The `Prefer` header of requests, as in RFC 7240."""

from app.web.jobs.creating import Preferences
from tests.cases import each_case


@each_case(
    ("header", "wait", "is_async"),
    [
        ("wait=10", 10, False),
        ("Wait = 10 , Respond-Async", 10, True),
        ('respond-async, wait="5"; foo=1', 5, True),
        ("wait=1, wait=20", 1, False),
        ("wait=1e3", None, False),
        ("wait=٣", None, False),
        ("wait", None, False),
        ("respond-async=no", None, False),
        ("", None, False),
        (",,;,=", None, False),
    ],
)
def test_preferences_are_read_leniently(header: str, wait: int | None, is_async: bool) -> None:
    assert Preferences.read(header) == Preferences(wait, is_async)


def test_answer_names_the_applied_preferences() -> None:
    assert Preferences(90, True).applied(60) == {"Preference-Applied": "respond-async, wait=60"}
    assert Preferences(90, False).applied(None) == {}
