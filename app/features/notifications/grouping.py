"""Grouping: events of one message, counted by subject in bounded size. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from app.features.notifications.rules import RANK, TRAITS, Occurrence
from app.kernel.formats import EPOCH, rfc3339
from schema.states import NotificationEvent

MAX_EXAMPLES = 5  # ids per subject and per message
MAX_KEPT = 50  # subjects that a group counts separately; a message names fewer
MAX_SUBJECT = 200  # characters
_LATEST = datetime.max.replace(tzinfo=UTC)

Subject = tuple[NotificationEvent, str]


@dataclass(frozen=True, slots=True)
class SubjectCount:
    """Number of the events of one subject, their period, and ids of examples."""

    count: int
    first_at: datetime
    last_at: datetime
    examples: list[str]

    def plus(self, other: "SubjectCount") -> "SubjectCount":
        examples = list(dict.fromkeys((*self.examples, *other.examples)))[:MAX_EXAMPLES]
        first, last = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        return SubjectCount(self.count + other.count, first, last, examples)


SubjectCounts = dict[Subject, SubjectCount]


def add_counts(total: SubjectCounts, counts: SubjectCounts) -> None:
    for subject, counted in counts.items():
        total[subject] = total[subject].plus(counted) if subject in total else counted


def count_by_subject(events: Iterable[Occurrence]) -> SubjectCounts:
    found: SubjectCounts = {}
    for each in events:
        one = SubjectCount(1, each.at, each.at, [] if each.example is None else [each.example])
        add_counts(found, {(each.event, each.subject[:MAX_SUBJECT]): one})
    return found


def counts_as_json(counts: SubjectCounts) -> list[dict[str, Any]]:
    return [
        {"event": event.value, "subject": name, "count": each.count, "examples": each.examples} | _period(each)
        for (event, name), each in counts.items()
    ]


def counts_from_json(value: Iterable[Mapping[str, Any]]) -> SubjectCounts:
    return {
        (NotificationEvent(each["event"]), each["subject"]): SubjectCount(
            each["count"], *_instants(each), list(each["examples"])
        )
        for each in value
    }


@dataclass(slots=True)
class EventGroup:
    """Events of one message: counts of the most frequent subjects, and totals by event; without events no message."""

    kept: SubjectCounts = field(default_factory=dict)
    counts: Counter[NotificationEvent] = field(default_factory=Counter)
    first_at: datetime = _LATEST
    last_at: datetime = EPOCH

    @property
    def count(self) -> int:
        return self.counts.total()

    @property
    def event(self) -> NotificationEvent:
        """Return the event of the highest severity; the most frequent among equals."""
        return max(self.counts, key=lambda event: (RANK[TRAITS[event].severity], self.counts[event], event))

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
        for (event, _), counted in counts.items():
            self.counts[event] += counted.count
            self.first_at, self.last_at = min(self.first_at, counted.first_at), max(self.last_at, counted.last_at)
        add_counts(self.kept, counts)
        if len(self.kept) > MAX_KEPT:
            self.kept = dict(sorted(self.kept.items(), key=lambda each: -each[1].count)[:MAX_KEPT])

    def as_json(self) -> dict[str, Any]:
        counts = {event.value: count for event, count in self.counts.items()}
        return {"subjects": counts_as_json(self.kept), "counts": counts} | _period(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a stored group; a group without events is stored as {}."""
        if not value:
            return cls()
        counts = Counter({NotificationEvent(event): count for event, count in value["counts"].items()})
        return cls(counts_from_json(value["subjects"]), counts, *_instants(value))


def _period(counted: SubjectCount | EventGroup) -> dict[str, str]:
    return {"first_at": rfc3339(counted.first_at), "last_at": rfc3339(counted.last_at)}


def _instants(value: Mapping[str, Any]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(value["first_at"]), datetime.fromisoformat(value["last_at"])
