"""Handler: work in the database after a completion event."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.metrics.series import Series
from app.queue.ending.outbox_rows import End


class HandlerResult(NamedTuple):
    """Result of a handler, applied once its transaction is committed.

    `queues` has numbers of executions that became due; their workers are woken. `counts` and `durations` are added to
    the metrics. `follow_ups` are keys of work that the handler continues after the commit. `ends` are ids of completion
    events that the handler has written itself.
    """

    queues: Mapping[str, int] = {}
    counts: Mapping[Series, int] = {}
    follow_ups: Collection[str] = ()
    durations: Sequence[tuple[Series, float]] = ()
    ends: Sequence[str] = ()


Apply = Callable[[Connection, Sequence[End]], HandlerResult]


class Handler(NamedTuple):
    """Handler of completion events: runs `apply` for the events that it `concerns`, each event exactly once.

    `apply` runs in the transaction that takes up to 200 events out of the outbox, and again if the transaction is
    repeated. It writes to this database and has no other effect. It reads by indexes, and locks rows in the order of
    their keys, executions first. Threads of workers and schedulers run it concurrently, for different events.

    Only subscribed events reach the outbox: see `app.queue.ending.subscriptions`. If an event causes an error of
    `apply`, instead of the database, `apply` runs again for each event alone. An event that fails alone is deferred for
    2 s, doubled after each failure up to an hour.

    The `name` is stored with deferred events, so it must not change. `concerns` does no I/O. `apply_together` replaces
    `apply` for a batch, and may do more; if it fails, the events are handled alone. `counters` are those in
    `HandlerResult.counts`, and series that the handler changes itself, all without labels.

    `follow_up` continues the work of one key after the commit, in transactions of its own; a result with follow-ups is
    continued later. A worker calls it at once, but a call may get lost: a chore has to find the work.
    """

    name: str
    concerns: Callable[[End], bool]
    apply: Apply
    apply_together: Apply | None = None
    counters: Sequence[Series] = ()
    follow_up: Callable[[Database, str], HandlerResult] | None = None
