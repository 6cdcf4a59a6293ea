"""Handler: work in the database after a completion event."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.metrics.series import Series
from app.queue.ending.outbox_rows import End


class HandlerResult(NamedTuple):
    """Result of a handler, applied once its transaction is committed.

    Attributes:
        queues: Numbers of executions that became due, by queue; their workers are woken.
        counts: Amounts to add to the metrics.
        follow_ups: Keys of work that the handler continues after the commit.
        durations: Values to observe in histograms.
        ends: Ids of completion events that the handler has written itself.
    """

    queues: Mapping[str, int] = {}
    counts: Mapping[Series, int] = {}
    follow_ups: Collection[str] = ()
    durations: Sequence[tuple[Series, float]] = ()
    ends: Sequence[str] = ()


Apply = Callable[[Connection, Sequence[End]], HandlerResult]


class Handler(NamedTuple):
    """Handler of completion events: runs `apply` for the events that it `concerns`, each event exactly once.

    `apply` runs in the transaction that takes the events out of the outbox, and again if the transaction is repeated.
    `apply` writes to this database and has no other effect. It reads by indexes, and locks rows in the order of their
    keys, executions first. Threads of workers and schedulers run it concurrently, for different events.

    Only subscribed events reach the outbox: see `app.queue.ending.subscriptions`. If an event causes an error of
    `apply`, instead of the database, `apply` runs again for each event alone. An event that fails alone is deferred for
    2 s, doubled after each failure up to an hour.

    Attributes:
        name: Name in the log and the metrics. It is stored with deferred events, so it must not change.
        concerns: Returns whether the handler has work for an event; without I/O.
        apply: Does the work for up to 200 events, all of which it concerns.
        apply_together: Replaces `apply` for a batch, and may do more. If it fails, the events are handled alone.
        counters: Counters in `HandlerResult.counts`, and series that the handler changes itself, all without labels.
        follow_up: Continues the work of one key after the commit, in transactions of its own; a result with follow-ups
            is continued later. A worker calls it at once, but a call may get lost: a chore has to find the work.

    Example:
        def _has_failed(end: End) -> bool:
            return end.status is ExecutionStatus.FAILED


        def _note(connection: Connection, ends: Sequence[End]) -> HandlerResult:
            connection.execute(NOTE, {"ids": sorted(end.execution_id for end in ends)})
            return HandlerResult()


        NOTES = Handler("notes", _has_failed, _note)
    """

    name: str
    concerns: Callable[[End], bool]
    apply: Apply
    apply_together: Apply | None = None
    counters: Sequence[Series] = ()
    follow_up: Callable[[Database, str], HandlerResult] | None = None
