"""Notification rules: matching events, refused rules, and the grouping of events into messages."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.features.notifications.grouping import MAX_KEPT, EventGroup, count_by_subject, counts_as_json, counts_from_json
from app.features.notifications.message import MAX_SUBJECTS, MESSAGE_SCHEMA, message_of
from app.features.notifications.pacing import HOUR, RuleSimulation, Wait
from app.features.notifications.rules import EVENTS, TRAITS, Occurrence, Rule, rule_faults
from schema.states import NotificationEvent
from tests.cases import each_case

_E = NotificationEvent
NOW = datetime(2030, 1, 10, 12, tzinfo=UTC)
MESSAGES = Draft202012Validator(MESSAGE_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)


def rule(**values: Any) -> Rule:
    given = {"events": ["execution.failed"], "channels": ["ops"], "endpoint": "billing-*"}
    return Rule.from_json("r", given | values)


def event(kind: NotificationEvent = _E.EXECUTION_FAILED, after: float = 0, subject: str = "s", **of: Any) -> Occurrence:
    about = {"endpoints": ("billing-eu",), "labels": {"team": "pay"}, "queues": ("bulk",)} | of
    return Occurrence(event=kind, subject=subject, at=NOW + timedelta(seconds=after), **about)


def test_every_event_has_traits() -> None:
    """If it fails, add the event to TRAITS, in app.features.notifications.rules."""
    assert TRAITS.keys() == set(NotificationEvent)


@each_case(
    ("values", "kind", "is_reported"),
    [
        ({}, _E.EXECUTION_FAILED, True),
        ({}, _E.JOB_FAILING, False),
        ({"endpoint": "billing"}, _E.EXECUTION_FAILED, False),
        ({"endpoint": "b?lling-e*"}, _E.EXECUTION_FAILED, True),
        ({"label": "team"}, _E.EXECUTION_FAILED, True),
        ({"label": "team=pay", "endpoint": None}, _E.EXECUTION_FAILED, True),
        ({"label": "team=shop"}, _E.EXECUTION_FAILED, False),
        ({"label": "te", "endpoint": None}, _E.EXECUTION_FAILED, False),
        ({"queue": "*k", "endpoint": None, "events": ["worker.lost"]}, _E.WORKER_LOST, True),
        ({"queue": "b", "endpoint": None, "events": ["queue.late"]}, _E.QUEUE_LATE, False),
        ({"queue": "bulk", "events": ["queue.late", "execution.failed"]}, _E.QUEUE_LATE, True),
        ({"endpoint": None, "all": True, "events": list(EVENTS)}, _E.BREAKER_OPENED, True),
        ({"min_severity": "critical"}, _E.EXECUTION_FAILED, False),
        ({"min_severity": "critical", "events": ["job.failing"]}, _E.JOB_FAILING, True),
    ],
)
def test_rule_matches_by_event_severity_and_conditions(
    values: dict[str, Any], kind: NotificationEvent, is_reported: bool
) -> None:
    assert rule(**values).matches(event(kind)) is is_reported


@each_case(
    ("values", "pointers"),
    [
        ({}, []),
        ({"endpoint": None}, [""]),
        ({"endpoint": "**"}, ["/endpoint"]),
        ({"endpoint": "?*"}, ["/endpoint"]),
        ({"endpoint": "???"}, []),
        ({"endpoint": None, "all": True}, []),
        ({"all": True}, ["/endpoint"]),
        ({"events": ["queue.late"]}, ["/events"]),
        ({"events": ["queue.late"], "queue": "*"}, ["/queue"]),
        ({"events": ["worker.lost"], "queue": "bulk", "endpoint": None}, []),
        ({"events": ["execution.failed"], "queue": "bulk", "endpoint": None}, ["/events"]),
        ({"events": ["breaker.opened"], "label": "team"}, ["/events"]),
        ({"events": ["breaker.opened", "queue.late"], "label": "team", "endpoint": None}, ["/events", "/events"]),
        ({"events": ["job.recovered"], "min_severity": "warning"}, ["/min_severity"]),
        ({"quiet_hours": {"from": "22:00", "to": "22:00", "timezone": "UTC"}}, ["/quiet_hours/to"]),
    ],
)
def test_rule_that_matches_everything_or_nothing_is_refused(values: dict[str, Any], pointers: list[str]) -> None:
    assert [pointer for pointer, _ in rule_faults(rule(**values))] == pointers


OCCURRENCES = st.lists(
    st.builds(
        event,
        st.sampled_from(EVENTS),
        st.floats(0, 7200),
        st.integers(0, 70).map(lambda number: f"s-{number}"),
        example=st.integers(0, 30).map(str),
    ),
    max_size=200,
)


@given(st.lists(OCCURRENCES, max_size=5))
def test_no_event_is_lost_or_counted_twice_in_any_batches(batches: list[list[Occurrence]]) -> None:
    group, every = EventGroup(), [each for batch in batches for each in batch]
    for batch in batches:
        group.add(counts_from_json(counts_as_json(count_by_subject(batch))))
        if group.count:
            group = EventGroup.from_json(group.as_json())
    assert group.counts == Counter(each.event for each in every)
    assert len(group.kept) <= MAX_KEPT
    if every:
        assert (group.first_at, group.last_at) == (min(e.at for e in every), max(e.at for e in every))
        message = message_of("r", group)
        MESSAGES.validate(message)
        assert message["count"] == len(every)
        assert sum(subject["count"] for subject in message["subjects"]) <= len(every)
        if len({(each.event, each.subject) for each in every}) <= MAX_KEPT:
            of_subjects = Counter(each.subject for each in every)
            shown = [(each["name"], each["count"]) for each in message["subjects"]]
            assert shown == sorted(of_subjects.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_SUBJECTS]


def test_message_has_title_severity_examples_and_counts() -> None:
    group = EventGroup()
    failed = [event(subject=f"billing-{number % 12}", after=number, example=f"exec_{number}") for number in range(2500)]
    group.add(count_by_subject(failed))
    group.add(count_by_subject([event(_E.JOB_RECOVERED, subject="Report")]))
    message = message_of("r", group)
    assert message["title"] == "2,500 executions failed, 1 job works again"
    assert message["severity"] == "warning"
    assert len(message["examples"]) == 5
    assert "    209  billing-0" in message["body"]
    assert "    417  others" in message["body"]


def simulate(values: dict[str, Any], occurrences: Iterable[Occurrence], now: datetime) -> RuleSimulation:
    simulation = RuleSimulation(rule(**values))
    simulation.run(occurrences, now)
    return simulation


def sent_messages(
    values: dict[str, Any], *occurrences: Occurrence, until: float = 7200
) -> list[tuple[int, float | None]]:
    """Return the number of events of each message, and after how many seconds the message is sent."""
    found = simulate(values, occurrences, NOW + timedelta(seconds=until))
    return [
        (sent.group.count, None if sent.sent_at is None else (sent.sent_at - NOW).total_seconds())
        for sent in found.groups
    ]


def test_events_within_the_window_are_one_message() -> None:
    storm = [event(after=number * 0.006) for number in range(10_000)]
    assert sent_messages({}, *storm) == [(10_000, 60)]
    assert sent_messages({}, event(), event(after=59), event(after=60), event(after=130)) == [
        (2, 60),
        (1, 120),
        (1, 190),
    ]
    assert sent_messages({"group_seconds": 0}, event(), event(after=1)) == [(1, 0), (1, 1)]
    assert sent_messages({}, event(), until=59) == [(1, None)]


def test_events_beyond_the_rate_are_in_the_next_message() -> None:
    every_minute = [event(after=60 * number) for number in range(90)]
    sent = sent_messages({"group_seconds": 0, "max_per_hour": 3}, *every_minute)
    assert sent == [(1, 0), (1, 60), (1, 120), (57, 3600), (1, 3660), (1, 3720), (28, 7200)]


def test_events_in_quiet_hours_are_one_message_at_their_end() -> None:
    night = {"quiet_hours": {"from": "12:30", "to": "13:30", "timezone": "UTC"}, "group_seconds": 60}
    sent = sent_messages(night, event(after=1770), event(after=2000), event(after=5300), event(after=5400))
    assert sent == [(3, 5400), (1, 5460)]
    assert simulate(night, [event(after=2000)], NOW + HOUR).groups[0].waits_for is Wait.QUIET


def test_subject_is_not_reported_again_within_the_repeat_interval() -> None:
    values = {"repeat_after_seconds": 600, "group_seconds": 60}
    events = [event(after=0), event(after=30), event(after=100), event(after=200, subject="other"), event(after=661)]
    assert sent_messages(values, *events) == [(2, 60), (1, 260), (1, 721)]
    assert simulate(values, events, NOW + HOUR).repeated == 1
