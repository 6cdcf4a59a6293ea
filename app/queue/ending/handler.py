"""Handler: work in the database after a completion event."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from app.kernel.metrics.series import Series
from app.queue.ending.outbox_rows import End


@dataclass(frozen=True, slots=True)
class Brought:
    """Result of a handler: queues in which executions became due, and counts to add once it is committed."""

    queues: Collection[str] = ()
    counts: Mapping[Series, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handler:
    """Runs `apply` for the completion events that it `concerns`.

    `apply` runs in the transaction that takes the events out of the outbox, and again if that is repeated: it writes to
    this database and does nothing else. It reads by indexes, and locks rows in the order of their keys, executions
    first. If it raises an error that is due to an event, not to the database, it runs again for each event alone.
    """

    name: str  # stored with deferred events, so it must not change
    concerns: Callable[[End], bool]
    apply: Callable[[Connection, Sequence[End]], Brought]
