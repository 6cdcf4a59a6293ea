"""Pacing: when a group becomes a message, and what a rule would have told of what happened. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.features.notifications.grouping import Group, Subject, tallied
from app.features.notifications.matching import Occurrence, tells
from app.features.notifications.rules import Rule

AN_HOUR = timedelta(hours=1)


class Wait(StrEnum):
    """Why a group is no message yet."""

    WINDOW = "window"  # others may come that belong to it
    RATE = "rate"  # there were as many messages within an hour as the rule allows
    QUIET = "quiet"  # quiet hours


@dataclass(frozen=True, slots=True)
class Held:
    """Why a group waits, and the instant until which it does for that reason."""

    wait: Wait
    until: datetime


def held(rule: Rule, opened_at: datetime, earlier: datetime | None, now: datetime) -> Held | None:
    """Return why a group waits; None once it becomes a message.

    `earlier` is the instant of that message since which, itself included, there were as many as an hour may have.
    """
    closes_at = opened_at + rule.group
    if now < closes_at:
        return Held(Wait.WINDOW, closes_at)
    if earlier is not None and now < earlier + AN_HOUR:
        return Held(Wait.RATE, earlier + AN_HOUR)
    quiet_until = None if rule.quiet_hours is None else rule.quiet_hours.until(now)
    return None if quiet_until is None else Held(Wait.QUIET, quiet_until)


@dataclass(slots=True)
class Sent:
    """A group of a simulation: `sent_at` is None where it would still wait, for `waits`."""

    opened_at: datetime
    group: Group = field(default_factory=Group)
    sent_at: datetime | None = None
    waits: Held | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a rule would have told: its groups in their order, of how many events, and how many were repetitions."""

    groups: Sequence[Sent]
    events: int
    repeated: int


def simulate(rule: Rule, what: Iterable[Occurrence], now: datetime) -> Told:
    """Tell of what happened, which is in the order of time, as if the rule had been there."""
    groups: list[Sent] = []
    sent: list[datetime] = []
    last: dict[Subject, Sent] = {}
    events = repeated = 0
    for each in what:
        if not tells(rule, each):
            continue
        events += 1
        _send(rule, groups, sent, each.at)
        (subject,) = fresh = tallied([each])
        if is_repeated(rule, None if subject not in last else last[subject].sent_at, each.at):
            repeated += 1
            continue
        if not groups or groups[-1].sent_at is not None:
            groups.append(Sent(each.at))
        groups[-1].group.add(fresh)
        last[subject] = groups[-1]
    _send(rule, groups, sent, now)
    return Told(groups, events, repeated)


def is_repeated(rule: Rule, told_at: datetime | None, now: datetime) -> bool:
    """Return whether a subject was told of so late that it is not told of again; None: it was not, or is to be."""
    return told_at is not None and now < told_at + rule.repeat_after


def _send(rule: Rule, groups: Sequence[Sent], sent: list[datetime], now: datetime) -> None:
    """Make a message of the last group if its time comes up to `now`."""
    if not groups or groups[-1].sent_at is not None:
        return
    last = groups[-1]
    at = last.opened_at
    # By its place: whoever previews may have 20,000 messages, and asks again with each event.
    earlier = sent[-rule.max_per_hour] if len(sent) >= rule.max_per_hour else None
    while (why := held(rule, last.opened_at, earlier, at)) is not None:
        if why.until > now:
            last.waits = why
            return
        at = why.until
    last.sent_at, last.waits = at, None
    sent.append(at)
