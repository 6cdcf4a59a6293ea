"""Rules: values that select events, channels and pace, and their validation. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo

from app.kernel.name_patterns import matches as fits
from app.schedule.zones import time_zone
from schema.states import NotificationEvent, Severity

_E, _S = NotificationEvent, Severity
_OF_JOBS, _LABEL = frozenset({"endpoint", "label"}), frozenset({"label"})


class EventTraits(NamedTuple):
    """Severity of an event, the conditions that can match it, and its singular and plural in titles."""

    severity: Severity
    conditions: frozenset[str]
    one: str
    several: str


TRAITS = {
    _E.EXECUTION_FAILED: EventTraits(_S.WARNING, _OF_JOBS, "execution failed", "executions failed"),
    _E.JOB_FAILING: EventTraits(_S.CRITICAL, _OF_JOBS, "job keeps failing", "jobs keep failing"),
    _E.JOB_RECOVERED: EventTraits(_S.INFO, _OF_JOBS, "job works again", "jobs work again"),
    _E.SCHEDULE_OVERDUE: EventTraits(_S.WARNING, _OF_JOBS, "schedule is overdue", "schedules are overdue"),
    _E.WORKER_LOST: EventTraits(_S.CRITICAL, frozenset({"queue"}), "worker was lost", "workers were lost"),
    _E.BREAKER_OPENED: EventTraits(_S.CRITICAL, frozenset({"endpoint"}), "breaker opened", "breakers opened"),
    _E.QUEUE_LATE: EventTraits(_S.WARNING, frozenset({"queue"}), "queue is late", "queues are late"),
    _E.WORKFLOW_FAILED: EventTraits(_S.CRITICAL, _LABEL, "workflow failed", "workflows failed"),
    _E.WORKFLOW_LATE: EventTraits(_S.WARNING, _LABEL, "workflow is late", "workflows are late"),
    _E.TEST: EventTraits(_S.INFO, frozenset(), "test", "tests"),
}
EVENTS = tuple(event for event in TRAITS if event is not _E.TEST)
RANK = {severity: rank for rank, severity in enumerate((_S.INFO, _S.WARNING, _S.CRITICAL))}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)

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


class QuietHours(NamedTuple):
    """Local times without messages: begin on each of `days`, end on the next day unless `ends` is later than `begins`.

    A beginning that occurs twice (clocks turned back) is the earlier instant, an end the later instant. A time that
    clocks skip is moved forward by the length of the gap.
    """

    begins: time
    ends: time
    days: frozenset[int]
    zone: ZoneInfo

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        begins, ends = (time.fromisoformat(value[name]) for name in ("from", "to"))
        return cls(begins, ends, frozenset(map(DAYS.index, value.get("days") or DAYS)), time_zone(value["timezone"]))

    def until(self, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that contain `now`; None outside quiet hours."""
        today = now.astimezone(self.zone).date()
        # Quiet hours that began yesterday may still last.
        for day in (today - _DAY, today):
            local_end = datetime.combine(day if self.begins < self.ends else day + _DAY, self.ends)
            begins = datetime.combine(day, self.begins, self.zone).astimezone(UTC)
            ends = local_end.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
            if ends.astimezone(self.zone).replace(tzinfo=None) != local_end:  # in a gap, fold=1 is the earlier instant
                ends = local_end.replace(tzinfo=self.zone).astimezone(UTC)
            if day.weekday() in self.days and begins <= now < ends:
                return ends
        return None


class Occurrence(NamedTuple):
    """Event of a subject, with the endpoints, labels or queues that rules match; `example` is the id of a resource."""

    event: NotificationEvent
    subject: str
    at: datetime
    example: str | None = None
    endpoints: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    queues: Sequence[str] = ()


def execution_failed(endpoint: str, at: datetime, execution_id: str, labels: Mapping[str, str] | None) -> Occurrence:
    return Occurrence(
        event=_E.EXECUTION_FAILED,
        subject=endpoint,
        at=at,
        example=execution_id,
        endpoints=(endpoint,),
        labels=labels or {},
    )


def job_subject(row: Any) -> str:
    """Return the subject of events of a job: its name, or the id of its first version."""
    return str(row.name or row.first_version_id or row.job_id)


class Rule(NamedTuple):
    """Events and conditions that match, and the channels and pace of the messages; fields as in the API."""

    name: str
    events: frozenset[NotificationEvent]
    channels: Sequence[str]
    endpoint: str | None
    label: str | None
    queue: str | None
    all: bool
    min_severity: Severity
    failing_after: int
    late_seconds: int
    group_seconds: int
    repeat_after_seconds: int
    max_per_hour: int
    quiet_hours: QuietHours | None

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> Self:
        """Return the rule of a stored or requested value; raise LookupError or ValueError for unknown words in it."""
        given = {each: value.get(each, default) for each, default in DEFAULTS.items()}
        given["min_severity"] = Severity(given["min_severity"])
        given["quiet_hours"] = given["quiet_hours"] and QuietHours.from_json(given["quiet_hours"])
        events, channels = frozenset(map(NotificationEvent, value["events"])), tuple(value["channels"])
        return cls(name=name, events=events, channels=channels, **given)

    def covers(self, event: NotificationEvent) -> bool:
        """Return whether the rule reports the event at all, by its events and severity."""
        return event in self.events and RANK[TRAITS[event].severity] >= RANK[self.min_severity]

    def matches(self, occurrence: Occurrence) -> bool:
        """Return whether the rule reports an occurrence: all conditions that concern such an event must match."""
        if not self.covers(occurrence.event) or self.all:
            return self.covers(occurrence.event)
        given = [name for name in TRAITS[occurrence.event].conditions if getattr(self, name) is not None]
        return bool(given) and all(self._fits(name, occurrence) for name in given)

    def reports_streaks(self, failure: Occurrence) -> bool:
        """Return whether the rule reports that the job of a failure keeps failing, or that it recovered."""
        return any(self.matches(failure._replace(event=event)) for event in (_E.JOB_FAILING, _E.JOB_RECOVERED))

    def _fits(self, condition: str, occurrence: Occurrence) -> bool:
        if condition == "label":
            key, sign, value = (self.label or "").partition("=")
            return key in occurrence.labels and (not sign or occurrence.labels[key] == value)
        names = occurrence.queues if condition == "queue" else occurrence.endpoints
        return any(fits(getattr(self, condition), name) for name in names)


def rule_faults(rule: Rule) -> Iterator[tuple[str, str]]:
    """Return the pointers and messages of faults, such as conditions that match everything, or never an event."""
    given = {name: value for name in ("endpoint", "label", "queue") if (value := getattr(rule, name)) is not None}
    if rule.all:
        yield from ((f"/{name}", "Must be absent with `all`.") for name in given)
        given = {}
    elif not given:
        yield "", 'The rule has no condition: give an endpoint, a label or a queue, or set "all": true.'
    for name in ("endpoint", "queue"):
        if name in given and "*" in given[name] and not given[name].strip("*?"):
            yield f"/{name}", f'The pattern matches every {name}: give a narrower pattern, or set "all": true.'
    for event in sorted(rule.events) if given else ():
        conditions = TRAITS[event].conditions
        if not conditions & given.keys():
            words = " or ".join(f"`{name}`" for name in sorted(conditions))
            yield "/events", f'{event} needs {words}, or "all": true: give a condition, or leave the event out.'
        elif "label" in given and not conditions & {"label", "queue"}:
            yield "/events", f"{event} has no labels: leave it out, or create a separate rule without `label`."
    if rule.quiet_hours is not None and rule.quiet_hours.begins == rule.quiet_hours.ends:
        yield "/quiet_hours/to", "The end equals the beginning: give another time."
    if not any(map(rule.covers, rule.events)):
        yield "/min_severity", f"No event is {rule.min_severity} or worse: lower the severity, or add an event."
