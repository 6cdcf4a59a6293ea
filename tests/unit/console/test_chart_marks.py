"""Marks of charts: one for each step with changes, with the worst tone and a bounded number of words."""

from datetime import UTC, datetime, timedelta

from app.console.views.chart_marks import marks_of
from app.console.views.event_lines import EventLine
from app.features.rollups.delivery_history import Range

START = datetime(2026, 3, 15, 12, tzinfo=UTC)


def line(seconds: float, what: str, of: str, tone: str = "wait") -> EventLine:
    at = START + timedelta(seconds=seconds)
    return EventLine(str(seconds), at, what, what, tone, of, place="", endpoint="", details="")


def test_changes_of_a_step_share_a_mark_at_the_first_of_them() -> None:
    changes = [
        line(70, "worker started", "wrk_2"),
        line(65, "worker started", "wrk_1"),
        line(119, "breaker open", "https:pay:443", "bad"),
        line(10, "endpoint changed", "charge"),
        line(110, "queue changed", "bulk"),
        line(111, "config changed", "base"),
    ]
    first, second = marks_of(changes, Range(START, START + timedelta(minutes=3), 60))
    assert (first.at, first.tone, first.words) == (START + timedelta(seconds=10), "wait", "endpoint changed charge")
    assert (second.at, second.tone) == (START + timedelta(seconds=65), "bad")
    assert second.words == "worker started (2), queue changed bulk, config changed base, 1 more"
