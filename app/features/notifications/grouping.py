"""Grouping: events that become one message, told by their subjects; whatever their number, a few of each. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from app.features.notifications.matching import MOST_SUBJECT, Occurrence
from app.features.notifications.message import MOST_EXAMPLES
from app.features.notifications.rules import RANK, SEVERITY
from app.kernel.formats import rfc3339
from schema.states import NotificationEvent

MOST_KEPT = 50  # subjects of a group that are told apart; a message names fewer

Subject = tuple[NotificationEvent, str]


@dataclass(slots=True)
class Tally:
    """What several events of one subject come to."""

    count: int
    first_at: datetime
    last_at: datetime
    examples: list[str]

    def add(self, other: "Tally") -> None:
        """Take in others of the same subject."""
        self.count += other.count
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.examples = list(dict.fromkeys((*self.examples, *other.examples)))[:MOST_EXAMPLES]

    def as_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        instants = {"first_at": rfc3339(self.first_at), "last_at": rfc3339(self.last_at)}
        return {"count": self.count, **instants, "examples": self.examples}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what is stored."""
        first, last = (datetime.fromisoformat(value[name]) for name in ("first_at", "last_at"))
        return cls(value["count"], first, last, list(value["examples"]))


Tallies = dict[Subject, Tally]


def tallied(events: Iterable[Occurrence]) -> Tallies:
    """Count what happened by its subjects."""
    found: Tallies = {}
    for each in events:
        one = Tally(1, each.at, each.at, [] if each.example is None else [each.example])
        add_to(found, (each.event, each.subject[:MOST_SUBJECT]), one)
    return found


def add_to(tallies: Tallies, subject: Subject, tally: Tally) -> None:
    """Count more of a subject."""
    known = tallies.get(subject)
    if known is None:
        tallies[subject] = Tally(tally.count, tally.first_at, tally.last_at, list(tally.examples))
    else:
        known.add(tally)


def tallies_as_json(tallies: Tallies) -> list[dict[str, Any]]:
    """Return tallies as they are stored."""
    return [{"event": event.value, "subject": name, **tally.as_json()} for (event, name), tally in tallies.items()]


def tallies_from_json(value: Iterable[Mapping[str, Any]]) -> Tallies:
    """Read tallies that are stored."""
    return {(NotificationEvent(each["event"]), each["subject"]): Tally.from_json(each) for each in value}


@dataclass(slots=True)
class Group:
    """What one message tells: the subjects with most events, and how many events others had."""

    kept: Tallies = field(default_factory=dict)
    counts: Counter[NotificationEvent] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def count(self) -> int:
        """How many events there are."""
        return self.counts.total()

    @property
    def event(self) -> NotificationEvent:
        """The one that matters most; of equals the most frequent."""
        return max(self.counts, key=lambda event: (RANK[SEVERITY[event]], self.counts[event], event))

    @property
    def subjects(self) -> Counter[str]:
        """How many events those subjects had that are told apart."""
        found = Counter[str]()
        for (_, name), tally in self.kept.items():
            found[name] += tally.count
        return found

    @property
    def examples(self) -> list[str]:
        """Ids to look up, one of each subject before there are two of any."""
        rows = [tally.examples for tally in self.kept.values()]
        found = (row[place] for place in range(MOST_EXAMPLES) for row in rows if place < len(row))
        return list(dict.fromkeys(found))[:MOST_EXAMPLES]

    def add(self, tallies: Tallies) -> None:
        """Take in more; of too many subjects those with the fewest events are no longer told apart."""
        for (event, name), tally in tallies.items():
            self.counts[event] += tally.count
            self.first_at = tally.first_at if self.first_at is None else min(self.first_at, tally.first_at)
            self.last_at = tally.last_at if self.last_at is None else max(self.last_at, tally.last_at)
            add_to(self.kept, (event, name), tally)
        if len(self.kept) > MOST_KEPT:
            most = sorted(self.kept, key=lambda subject: -self.kept[subject].count)[:MOST_KEPT]
            self.kept = {subject: self.kept[subject] for subject in most}

    def as_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        counts = {event.value: count for event, count in self.counts.items()}
        instants = {name: at and rfc3339(at) for name, at in (("first_at", self.first_at), ("last_at", self.last_at))}
        return {"subjects": tallies_as_json(self.kept), "counts": counts, **instants}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what is stored."""
        first, last = (datetime.fromisoformat(value[name]) for name in ("first_at", "last_at"))
        counts = Counter({NotificationEvent(event): count for event, count in value["counts"].items()})
        return cls(tallies_from_json(value["subjects"]), counts, first, last)
