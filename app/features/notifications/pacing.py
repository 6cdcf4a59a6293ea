"""Pacing: decides when a group is sent, and simulates a rule on past occurrences. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.features.notifications.grouping import EventGroup, Subject, count_by_subject
from app.features.notifications.rules import Occurrence, Rule

HOUR = timedelta(hours=1)


class Wait(StrEnum):
    """Reason why a group is not sent yet."""

    WINDOW = "window"  # group_seconds have not passed since its first event
    RATE = "rate"  # max_per_hour is reached
    QUIET = "quiet"  # quiet hours


def held(rule: Rule, opened_at: datetime, earlier: datetime | None, now: datetime) -> tuple[Wait, datetime] | None:
    """Return why a group waits and the instant at which that reason ends; None if the group is due.

    `earlier` is the instant of the message that is `max_per_hour` messages back; None if there is no such message.
    """
    closes_at = opened_at + timedelta(seconds=rule.group_seconds)
    if now < closes_at:
        return Wait.WINDOW, closes_at
    if earlier is not None and now < earlier + HOUR:
        return Wait.RATE, earlier + HOUR
    quiet_until = None if rule.quiet_hours is None else rule.quiet_hours.until(now)
    return None if quiet_until is None else (Wait.QUIET, quiet_until)


def is_repeated(rule: Rule, reported_at: datetime | None, now: datetime) -> bool:
    """Return whether a subject was reported less than `repeat_after_seconds` ago; None: not reported yet."""
    return reported_at is not None and now < reported_at + timedelta(seconds=rule.repeat_after_seconds)


@dataclass(slots=True)
class SimulatedGroup:
    """Group of a simulation; `sent_at` is None while the group would wait for `waits_for`."""

    opened_at: datetime
    group: EventGroup = field(default_factory=EventGroup)
    sent_at: datetime | None = None
    waits_for: Wait | None = None


@dataclass(slots=True)
class RuleSimulation:
    """Groups in order of time, instants of sent groups, and numbers of matching and of repeated events."""

    rule: Rule
    groups: list[SimulatedGroup] = field(default_factory=list)
    sent: list[datetime] = field(default_factory=list)
    events: int = 0
    repeated: int = 0

    def run(self, occurrences: Iterable[Occurrence], now: datetime) -> None:
        """Apply the rule to occurrences in order of time."""
        last: dict[Subject, SimulatedGroup] = {}
        for each in filter(self.rule.matches, occurrences):
            self.events += 1
            self._send(each.at)
            (subject,) = fresh = count_by_subject([each])
            if subject in last and is_repeated(self.rule, last[subject].sent_at, each.at):
                self.repeated += 1
                continue
            if not self.groups or self.groups[-1].sent_at is not None:
                self.groups.append(SimulatedGroup(each.at))
            self.groups[-1].group.add(fresh)
            last[subject] = self.groups[-1]
        self._send(now)

    def _send(self, now: datetime) -> None:
        """Send the last group if it is due by `now`."""
        if not self.groups or self.groups[-1].sent_at is not None:
            return
        last = self.groups[-1]
        at = last.opened_at
        # Indexed, not scanned: a preview may have 20,000 messages, and calls this for each event.
        earlier = self.sent[-self.rule.max_per_hour] if len(self.sent) >= self.rule.max_per_hour else None
        while (why := held(self.rule, last.opened_at, earlier, at)) is not None:
            last.waits_for, at = why
            if at > now:
                return
        last.sent_at, last.waits_for = at, None
        self.sent.append(at)
