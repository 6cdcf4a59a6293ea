"""Matching: what happened, and whether a rule tells of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.catalog.routing.routes import matches as fits
from app.features.notifications.rules import OF_QUEUES, Rule
from schema.states import NotificationEvent

MOST_SUBJECT = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something that happened to a subject, of these endpoints, labels or queues; `example` is an id to look up."""

    event: NotificationEvent
    subject: str
    at: datetime
    example: str | None = None
    endpoints: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    queues: Sequence[str] = ()


def tells(rule: Rule, what: Occurrence) -> bool:
    """Return whether a rule tells of something: it must fit the conditions that concern such an event, all of them."""
    if not rule.wants(what.event):
        return False
    if rule.is_for_all:
        return True
    if what.event in OF_QUEUES:
        return rule.queue is not None and _any_fits(rule.queue, what.queues)
    if rule.endpoint is None and rule.label is None:
        return False
    return (rule.endpoint is None or _any_fits(rule.endpoint, what.endpoints)) and (
        rule.label is None or _has(what.labels, rule.label)
    )


def _any_fits(pattern: str, names: Iterable[str]) -> bool:
    return any(fits(pattern, name) for name in names)


def _has(labels: Mapping[str, str], wanted: str) -> bool:
    key, sign, value = wanted.partition("=")
    return key in labels and (not sign or labels[key] == value)
