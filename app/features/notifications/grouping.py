"""Grouping: events of one message, counted by subject in bounded size. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from app.features.notifications.rules import MAX_SUBJECT, RANK, SEVERITY, Occurrence
from app.kernel.formats import rfc3339
from schema.states import NotificationEvent

MAX_EXAMPLES = 5  # ids per subject and per message
MAX_KEPT = 50  # subjects that a group counts separately; a message names fewer

Subject = tuple[NotificationEvent, str]


@dataclass(slots=True)
class SubjectCount:
    """Count of the events of one subject, their period, and ids of examples."""

    count: int
    first_at: datetime
    last_at: datetime
    examples: list[str]

    def add(self, other: "SubjectCount") -> None:
        """Add another count of the same subject."""
        self.count += other.count
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.examples = list(dict.fromkeys((*self.examples, *other.examples)))[:MAX_EXAMPLES]

    def as_json(self) -> dict[str, Any]:
        instants = {"first_at": rfc3339(self.first_at), "last_at": rfc3339(self.last_at)}
        return {"count": self.count, **instants, "examples": self.examples}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        first, last = (datetime.fromisoformat(value[name]) for name in ("first_at", "last_at"))
        return cls(value["count"], first, last, list(value["examples"]))


SubjectCounts = dict[Subject, SubjectCount]


def count_by_subject(events: Iterable[Occurrence]) -> SubjectCounts:
    """Count occurrences by event and subject."""
    found: SubjectCounts = {}
    for each in events:
        one = SubjectCount(1, each.at, each.at, [] if each.example is None else [each.example])
        add_count(found, (each.event, each.subject[:MAX_SUBJECT]), one)
    return found


def add_count(counts: SubjectCounts, subject: Subject, counted: SubjectCount) -> None:
    known = counts.get(subject)
    if known is None:
        counts[subject] = SubjectCount(counted.count, counted.first_at, counted.last_at, list(counted.examples))
    else:
        known.add(counted)


def counts_as_json(counts: SubjectCounts) -> list[dict[str, Any]]:
    return [{"event": event.value, "subject": name, **counted.as_json()} for (event, name), counted in counts.items()]


def counts_from_json(value: Iterable[Mapping[str, Any]]) -> SubjectCounts:
    return {(NotificationEvent(each["event"]), each["subject"]): SubjectCount.from_json(each) for each in value}


@dataclass(slots=True)
class EventGroup:
    """Events of one message: counts of the most frequent subjects, and totals by event."""

    kept: SubjectCounts = field(default_factory=dict)
    counts: Counter[NotificationEvent] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def count(self) -> int:
        return self.counts.total()

    @property
    def event(self) -> NotificationEvent:
        """Return the event of the highest severity; the most frequent among equals."""
        return max(self.counts, key=lambda event: (RANK[SEVERITY[event]], self.counts[event], event))

    @property
    def subjects(self) -> Counter[str]:
        """Return the number of events by name of the subject, of separately counted subjects."""
        found = Counter[str]()
        for (_, name), counted in self.kept.items():
            found[name] += counted.count
        return found

    @property
    def examples(self) -> list[str]:
        """Return example ids, one of each subject before a second of any."""
        rows = [counted.examples for counted in self.kept.values()]
        found = (row[index] for index in range(MAX_EXAMPLES) for row in rows if index < len(row))
        return list(dict.fromkeys(found))[:MAX_EXAMPLES]

    def add(self, counts: SubjectCounts) -> None:
        """Add counts; beyond MAX_KEPT subjects, the least frequent are only part of the totals."""
        for (event, name), counted in counts.items():
            self.counts[event] += counted.count
            self.first_at = counted.first_at if self.first_at is None else min(self.first_at, counted.first_at)
            self.last_at = counted.last_at if self.last_at is None else max(self.last_at, counted.last_at)
            add_count(self.kept, (event, name), counted)
        if len(self.kept) > MAX_KEPT:
            most = sorted(self.kept, key=lambda subject: -self.kept[subject].count)[:MAX_KEPT]
            self.kept = {subject: self.kept[subject] for subject in most}

    def as_json(self) -> dict[str, Any]:
        counts = {event.value: count for event, count in self.counts.items()}
        instants = {name: at and rfc3339(at) for name, at in (("first_at", self.first_at), ("last_at", self.last_at))}
        return {"subjects": counts_as_json(self.kept), "counts": counts, **instants}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        first, last = (datetime.fromisoformat(value[name]) for name in ("first_at", "last_at"))
        counts = Counter({NotificationEvent(event): count for event, count in value["counts"].items()})
        return cls(counts_from_json(value["subjects"]), counts, first, last)
