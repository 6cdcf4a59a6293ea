"""Attention: conditions of the service that need a person, the most urgent first."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from app.console.views.words import duration, number, plural
from app.features.control.statistics import ServiceStatistics
from app.features.control.store import WorkerState
from app.features.control.trouble import EndpointState
from app.features.dead_letters.metrics import MAX_LETTERS
from app.features.queues.store import MAX_DUE
from app.kernel.formats import numbered

OVERDUE_SECONDS = 60.0


class Attention(NamedTuple):
    """One condition: `subject` is shown in bold, `since` is an instant, `page` the page that helps, with its query.

    `remedy` is the operation that ends it, `of` the part of its path, and `reach` what it affects, in words.
    """

    tone: str
    subject: str
    text: str
    since: datetime | None = None
    page: str = ""
    query: tuple[tuple[str, str], ...] = ()
    remedy: str = ""
    of: tuple[tuple[str, str], ...] = ()
    reach: Sequence[str] = ()

    @property
    def target(self) -> dict[str, str]:
        return dict(self.of)

    @property
    def parameters(self) -> dict[str, str]:
        return dict(self.query)


def attention(
    statistics: ServiceStatistics, endpoints: Sequence[EndpointState], breakers: Sequence[Mapping[str, Any]]
) -> list[Attention]:
    """Return all conditions, urgent ones first; `breakers` are open breakers, each with its `reach`."""
    found = [*_workers(statistics), *_queues(statistics), *_breakers(breakers), *_schedules(statistics)]
    found += [*_letters(statistics), *_pauses(statistics, endpoints)]
    return sorted(found, key=lambda each: each.tone != "bad")


def _workers(statistics: ServiceStatistics) -> Iterator[Attention]:
    by_state = statistics.workers.by_state
    if not by_state.get(WorkerState.ALIVE, 0):
        yield Attention(
            "bad", "No worker is alive:", "nothing is delivered; start one by dramatiq actors", page="processes"
        )
    if lost := by_state.get(WorkerState.LOST, 0):
        text = "lost within the last day; schedulers took the executions back"
        yield Attention("warn", plural(lost, "worker"), text, page="processes", query=(("state", "LOST"),))
    if statistics.late_ends:
        text = "without effects (dead letters, callbacks, messages) for a minute: is a scheduler running?"
        yield Attention("bad", plural(statistics.late_ends, "completed execution"), text)


def _queues(statistics: ServiceStatistics) -> Iterator[Attention]:
    for queue in statistics.queues:
        if queue.is_unserved:
            text = f"{number(queue.due, or_more=queue.due >= MAX_DUE)} due and no live worker serves it, since"
            yield Attention("bad", f"Queue {queue.queue}:", text, queue.oldest_due_at, "processes")


def _breakers(breakers: Sequence[Mapping[str, Any]]) -> Iterator[Attention]:
    for breaker in breakers:
        yield Attention(
            "bad",
            breaker["target"],
            "is left alone: too many deliveries failed there, since",
            since=breaker["changed_at"],
            page="processes",
            remedy="POST /breakers/<target>/close",
            of=(("target", breaker["target"]),),
            reach=breaker["reach"],
        )


def _schedules(statistics: ServiceStatistics) -> Iterator[Attention]:
    if statistics.seconds_behind > OVERDUE_SECONDS:
        late = duration(statistics.seconds_behind * 1000)
        yield Attention("bad", "Schedules are overdue", f"by up to {late}: is a scheduler running?", page="schedules")


def _letters(statistics: ServiceStatistics) -> Iterator[Attention]:
    total = sum(each.letters for each in statistics.open_letters)
    if total:
        most = max(statistics.open_letters, key=attrgetter("letters"))
        share = "all" if most.letters == total else number(most.letters)
        subject = numbered(total, "dead letter", or_more=most.letters >= MAX_LETTERS)
        yield Attention("warn", subject, f"without a resolution, {share} of {most.endpoint}", page="letters")


def _pauses(statistics: ServiceStatistics, endpoints: Sequence[EndpointState]) -> Iterator[Attention]:
    for queue in statistics.queues:
        if queue.paused_at is not None:
            yield Attention(
                "warn",
                f"Queue {queue.queue}",
                f"is paused{_by(queue.paused_by)}, since",
                since=queue.paused_at,
                page="processes",
                remedy="POST /queues/<queue>/resume",
                of=(("queue", queue.queue),),
            )
    for each in endpoints:
        if each.paused_at is not None:
            name = (("name", each.endpoint),)
            yield Attention(
                "warn",
                f"Endpoint {each.endpoint}",
                f"is paused{_by(each.paused_by)}, since",
                since=each.paused_at,
                page="endpoint",
                query=name,
                remedy="POST /endpoints/<name>/resume",
                of=name,
            )


def _by(author: str | None) -> str:
    return f" by {author}" if author else ""
