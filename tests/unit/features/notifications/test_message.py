"""Notification messages match their schema for any content."""

from datetime import UTC, datetime, timedelta, timezone

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from app.features.notifications.grouping import EventGroup, SubjectCount
from app.features.notifications.message import MESSAGE_SCHEMA, build_message, sample_message
from schema.states import NotificationEvent

VALID = jsonschema.Draft202012Validator(MESSAGE_SCHEMA, format_checker=jsonschema.FormatChecker())
AT = datetime(2030, 1, 31, 11, tzinfo=timezone(timedelta(hours=1)))


@given(
    st.text(max_size=600),
    st.text(max_size=9_000),
    st.lists(st.tuples(st.text(), st.integers(0, 10)), min_size=1, max_size=20, unique_by=lambda subject: subject[0]),
    st.lists(st.text(), max_size=9),
)
def test_message_of_any_content_matches_the_schema(
    title: str, body: str, subjects: list[tuple[str, int]], examples: list[str]
) -> None:
    group = EventGroup()
    group.add({(NotificationEvent.QUEUE_LATE, name): SubjectCount(count, AT, AT, examples) for name, count in subjects})
    made = build_message("r", group, title, body)
    VALID.validate(made)
    counts = [subject["count"] for subject in made["subjects"]]
    assert counts == sorted((count for _, count in subjects), reverse=True)[:10]
    assert made["first_at"] == "2030-01-31T10:00:00Z"
    assert "\n" not in made["title"]


def test_sample_message_is_marked_as_a_test() -> None:
    made = sample_message("mail-ops", datetime.now(UTC))
    VALID.validate(made)
    assert (made["event"], made["subjects"]) == ("test", [{"name": "mail-ops", "count": 1}])
