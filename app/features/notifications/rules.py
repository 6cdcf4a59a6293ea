"""Rules: values that select events, channels and pace, and their validation. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from app.catalog.routing.routes import matches as fits
from app.features.notifications.quiet import QuietHours
from app.kernel.errors import Detail
from schema.states import NotificationEvent, Severity

_E, _S = NotificationEvent, Severity
EVENTS = tuple(event for event in _E if event is not _E.TEST)
SEVERITY = {
    _E.EXECUTION_FAILED: _S.WARNING,
    _E.JOB_FAILING: _S.CRITICAL,
    _E.JOB_RECOVERED: _S.INFO,
    _E.SCHEDULE_OVERDUE: _S.WARNING,
    _E.WORKER_LOST: _S.CRITICAL,
    _E.BREAKER_OPENED: _S.CRITICAL,
    _E.QUEUE_LATE: _S.WARNING,
    _E.TEST: _S.INFO,
}
MAX_SUBJECT = 200  # characters
RANK = {severity: rank for rank, severity in enumerate((_S.INFO, _S.WARNING, _S.CRITICAL))}
# Events with a queue instead of an endpoint, and events without labels.
QUEUE_EVENTS = frozenset({_E.WORKER_LOST, _E.QUEUE_LATE})
UNLABELLED_EVENTS = frozenset({*QUEUE_EVENTS, _E.BREAKER_OPENED})

DEFAULTS: dict[str, Any] = {
    "endpoint": None,
    "label": None,
    "queue": None,
    "all": False,
    "min_severity": Severity.INFO.value,
    "failing_after": 3,
    "late_seconds": 300,
    "group_seconds": 60,
    "repeat_after_seconds": 0,
    "max_per_hour": 20,
    "quiet_hours": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Event of a subject, with the endpoints, labels or queues that rules match; `example` is the id of a resource."""

    event: NotificationEvent
    subject: str
    at: datetime
    example: str | None = None
    endpoints: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    queues: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Events and conditions that match, and the channels and pace of the messages.

    A message holds the events of `group`. A reported subject is not reported again within `repeat_after`.
    """

    name: str
    events: frozenset[NotificationEvent]
    channels: Sequence[str]
    endpoint: str | None
    label: str | None
    queue: str | None
    is_for_all: bool
    min_severity: Severity
    failing_after: int
    late_seconds: int
    group: timedelta
    repeat_after: timedelta
    max_per_hour: int
    quiet_hours: QuietHours | None

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> Self:
        """Return the rule of a stored or requested value."""
        given = {**DEFAULTS, **value}
        quiet = given["quiet_hours"]
        return cls(
            name=name,
            events=frozenset(map(NotificationEvent, given["events"])),
            channels=tuple(given["channels"]),
            endpoint=given["endpoint"],
            label=given["label"],
            queue=given["queue"],
            is_for_all=given["all"],
            min_severity=Severity(given["min_severity"]),
            failing_after=given["failing_after"],
            late_seconds=given["late_seconds"],
            group=timedelta(seconds=given["group_seconds"]),
            repeat_after=timedelta(seconds=given["repeat_after_seconds"]),
            max_per_hour=given["max_per_hour"],
            quiet_hours=None if quiet is None else QuietHours.from_json(quiet),
        )

    def covers(self, event: NotificationEvent) -> bool:
        """Return whether the rule reports the event at all, by its events and severity."""
        return event in self.events and RANK[SEVERITY[event]] >= RANK[self.min_severity]

    def matches(self, occurrence: Occurrence) -> bool:
        """Return whether the rule reports an occurrence: all conditions that concern such an event must match."""
        if not self.covers(occurrence.event):
            return False
        if self.is_for_all:
            return True
        if occurrence.event in QUEUE_EVENTS:
            return self.queue is not None and _any_fits(self.queue, occurrence.queues)
        if self.endpoint is None and self.label is None:
            return False
        return (self.endpoint is None or _any_fits(self.endpoint, occurrence.endpoints)) and (
            self.label is None or _has(occurrence.labels, self.label)
        )


def faults(rule: Rule) -> list[Detail]:
    """Return the faults of a rule, such as conditions that match everything, or never match one of its events."""
    return [Detail(pointer=pointer, message=message) for pointer, message in _faults(rule)]


def _faults(rule: Rule) -> Iterator[tuple[str, str]]:
    selectors = {name: getattr(rule, name) for name in ("endpoint", "label", "queue")}
    given = [name for name, value in selectors.items() if value is not None]
    if rule.is_for_all:
        yield from ((f"/{name}", "A rule with `all` takes no other condition.") for name in given)
        given = []
    elif not given:
        yield "", 'The rule has no condition: give an endpoint, a label or a queue, or set "all": true.'
    for name in ("endpoint", "queue"):
        if name in given and "*" in selectors[name] and not selectors[name].strip("*?"):
            yield f"/{name}", f'The pattern matches every {name}: give a narrower pattern, or set "all": true.'
    for event in sorted(rule.events) if given else ():
        needed = needed_for(event)
        if not needed & set(given):
            words = " or ".join(f"`{name}`" for name in sorted(needed))
            yield "/events", f'{event} needs {words}, or "all": true: give a condition, or leave the event out.'
        elif "label" in given and event not in QUEUE_EVENTS and event in UNLABELLED_EVENTS:
            yield "/events", f"{event} has no labels: leave it out, or create a separate rule without `label`."
    if rule.quiet_hours is not None and rule.quiet_hours.begins == rule.quiet_hours.ends:
        yield "/quiet_hours/to", "The end equals the beginning: give another time."
    if not any(map(rule.covers, rule.events)):
        yield "/min_severity", f"No event is {rule.min_severity} or worse: lower the severity, or add an event."


def needed_for(event: NotificationEvent) -> set[str]:
    """Return the conditions that can match an event; a rule needs at least one."""
    if event in QUEUE_EVENTS:
        return {"queue"}
    return {"endpoint"} if event in UNLABELLED_EVENTS else {"endpoint", "label"}


def _any_fits(pattern: str, names: Iterable[str]) -> bool:
    return any(fits(pattern, name) for name in names)


def _has(labels: Mapping[str, str], wanted: str) -> bool:
    key, sign, value = wanted.partition("=")
    return key in labels and (not sign or labels[key] == value)
