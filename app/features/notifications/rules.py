"""Rules: who is told of what, and how often, as values; and what is wrong with one. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

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
RANK = {severity: rank for rank, severity in enumerate((_S.INFO, _S.WARNING, _S.CRITICAL))}
# What is about no endpoint: it is known by its queue. And what has no labels.
OF_QUEUES = frozenset({_E.WORKER_LOST, _E.QUEUE_LATE})
WITHOUT_LABELS = frozenset({*OF_QUEUES, _E.BREAKER_OPENED})

# What a rule has when nothing is said of it.
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
class Rule:
    """Which events are told to which channels, in messages of `group`, at most `max_per_hour` of them.

    A subject that was told of is not told of again within `repeat_after`.
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
        """Read what is stored, or what a request gives."""
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

    def wants(self, event: NotificationEvent) -> bool:
        """Return whether it tells of such events at all."""
        return event in self.events and RANK[SEVERITY[event]] >= RANK[self.min_severity]


def faults(rule: Rule) -> list[Detail]:
    """Return why a rule cannot be as it is: it matches everything without saying so, or one of its events never."""
    return [Detail(pointer=pointer, message=message) for pointer, message in _faults(rule)]


def _faults(rule: Rule) -> Iterator[tuple[str, str]]:
    selectors = {name: getattr(rule, name) for name in ("endpoint", "label", "queue")}
    given = [name for name, value in selectors.items() if value is not None]
    if rule.is_for_all:
        yield from ((f"/{name}", "A rule for `all` takes no other condition.") for name in given)
        given = []
    elif not given:
        yield "", 'The rule matches everything: give an endpoint, a label or a queue, or say so by "all": true.'
    for name in ("endpoint", "queue"):
        if name in given and "*" in selectors[name] and not selectors[name].strip("*?"):
            yield f"/{name}", f'It matches every {name}: name some of them, or say so by "all": true.'
    for event in sorted(rule.events) if given else ():
        needed = needed_for(event)
        if not needed & set(given):
            words = " or ".join(f"`{name}`" for name in sorted(needed))
            yield "/events", f'{event} is matched by {words}, or by "all": true: give one, or leave the event out.'
        elif "label" in given and event not in OF_QUEUES and event in WITHOUT_LABELS:
            yield "/events", f"{event} has no labels: leave it out, or give a rule of its own without `label`."
    if rule.quiet_hours is not None and rule.quiet_hours.begins == rule.quiet_hours.ends:
        yield "/quiet_hours/to", "They end when they begin: give another time."
    if not any(map(rule.wants, rule.events)):
        yield "/min_severity", f"None of the events is {rule.min_severity}: each has a severity of its own."


def needed_for(event: NotificationEvent) -> set[str]:
    """Return the conditions that say something of an event, any of which will do."""
    if event in OF_QUEUES:
        return {"queue"}
    return {"endpoint"} if event in WITHOUT_LABELS else {"endpoint", "label"}
