"""Pacing: decides when a group is sent, and simulates a rule on past occurrences. Pure."""

from collections.abc import Iterable, Sequence
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


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """Reason why a group waits, and the instant at which that reason ends."""

    wait: Wait
    until: datetime


def held(rule: Rule, opened_at: datetime, earlier: datetime | None, now: datetime) -> HeldGroup | None:
    """Return why a group waits; None if it is due.

    `earlier` is the instant of the message that is `max_per_hour` messages back; None if there is no such message.
    """
    closes_at = opened_at + rule.group
    if now < closes_at:
        return HeldGroup(Wait.WINDOW, closes_at)
    if earlier is not None and now < earlier + HOUR:
        return HeldGroup(Wait.RATE, earlier + HOUR)
    quiet_until = None if rule.quiet_hours is None else rule.quiet_hours.until(now)
    return None if quiet_until is None else HeldGroup(Wait.QUIET, quiet_until)


@dataclass(slots=True)
class SimulatedGroup:
    """Group of a simulation; `sent_at` is None while the group would wait for `waits`."""

    opened_at: datetime
    group: EventGroup = field(default_factory=EventGroup)
    sent_at: datetime | None = None
    waits: HeldGroup | None = None


@dataclass(frozen=True, slots=True)
class RuleSimulation:
    """Result of a simulation: groups in order of time, number of matching events, and number of repeated events."""

    groups: Sequence[SimulatedGroup]
    events: int
    repeated: int


def simulate(rule: Rule, occurrences: Iterable[Occurrence], now: datetime) -> RuleSimulation:
    """Apply a rule to occurrences in order of time."""
    groups: list[SimulatedGroup] = []
    sent: list[datetime] = []
    last: dict[Subject, SimulatedGroup] = {}
    events = repeated = 0
    for each in occurrences:
        if not rule.matches(each):
            continue
        events += 1
        _send(rule, groups, sent, each.at)
        (subject,) = fresh = count_by_subject([each])
        if is_repeated(rule, None if subject not in last else last[subject].sent_at, each.at):
            repeated += 1
            continue
        if not groups or groups[-1].sent_at is not None:
            groups.append(SimulatedGroup(each.at))
        groups[-1].group.add(fresh)
        last[subject] = groups[-1]
    _send(rule, groups, sent, now)
    return RuleSimulation(groups, events, repeated)


def is_repeated(rule: Rule, told_at: datetime | None, now: datetime) -> bool:
    """Return whether a subject was reported at `told_at`, less than `repeat_after` ago; None: not reported yet."""
    return told_at is not None and now < told_at + rule.repeat_after


def _send(rule: Rule, groups: Sequence[SimulatedGroup], sent: list[datetime], now: datetime) -> None:
    """Send the last group if it is due by `now`."""
    if not groups or groups[-1].sent_at is not None:
        return
    last = groups[-1]
    at = last.opened_at
    # Indexed, not scanned: a preview may have 20,000 messages, and calls this for each event.
    earlier = sent[-rule.max_per_hour] if len(sent) >= rule.max_per_hour else None
    while (why := held(rule, last.opened_at, earlier, at)) is not None:
        if why.until > now:
            last.waits = why
            return
        at = why.until
    last.sent_at, last.waits = at, None
    sent.append(at)
