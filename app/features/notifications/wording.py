"""Wording: the message of a group. Pure."""

from typing import Any

from app.features.notifications.grouping import Group
from app.features.notifications.message import MOST_SUBJECTS, build_message
from app.features.notifications.rules import SEVERITY
from app.kernel.formats import rfc3339
from schema.states import NotificationEvent

_E = NotificationEvent
_WORDS = {
    _E.EXECUTION_FAILED: ("execution failed", "executions failed"),
    _E.JOB_FAILING: ("job keeps failing", "jobs keep failing"),
    _E.JOB_RECOVERED: ("job works again", "jobs work again"),
    _E.SCHEDULE_OVERDUE: ("schedule is overdue", "schedules are overdue"),
    _E.WORKER_LOST: ("worker was lost", "workers were lost"),
    _E.BREAKER_OPENED: ("breaker opened", "breakers opened"),
    _E.QUEUE_LATE: ("queue is late", "queues are late"),
}


def message_of(rule: str, group: Group) -> dict[str, Any]:
    """Return the document that the channels of a rule get."""
    if group.first_at is None or group.last_at is None:
        raise ValueError("an empty group is no message")
    subjects = group.subjects
    return build_message(
        rule=rule,
        event=group.event,
        severity=SEVERITY[group.event],
        title=title_of(group),
        body=_body(rule, group),
        first_at=group.first_at,
        last_at=group.last_at,
        count=group.count,
        subjects=subjects.items(),
        examples=group.examples,
    )


def title_of(group: Group) -> str:
    """Say in one line what happened, what matters most first."""
    order = sorted(group.counts, key=lambda event: (event is not group.event, -group.counts[event], event))
    told = ", ".join(f"{group.counts[event]:,} {_WORDS[event][group.counts[event] > 1]}" for event in order)
    names = list(group.subjects)
    return f"{told}: {names[0]}" if len(names) == 1 else told


def _body(rule: str, group: Group) -> str:
    subjects = group.subjects.most_common(MOST_SUBJECTS)
    lines = [f"{title_of(group)}.", ""]
    lines += [f"  {count:>7,}  {name}" for name, count in subjects]
    others = group.count - sum(count for _, count in subjects)
    if others:
        lines.append(f"  {others:>7,}  others")
    first, last = (rfc3339(at, "seconds") for at in (group.first_at, group.last_at) if at is not None)
    lines += ["", f"first: {first}", f"last:  {last}"]
    if group.examples:
        lines += ["", f"look at: {', '.join(group.examples)}"]
    return "\n".join([*lines, "", f"rule: {rule}"])
