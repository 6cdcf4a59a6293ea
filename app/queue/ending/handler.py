"""Handler: something that follows the end of an attempt or an execution, in the database."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from app.kernel.metrics.series import Series
from app.queue.ending.outbox_rows import End


@dataclass(frozen=True, slots=True)
class Brought:
    """What came about: the queues in which something became due, and what is counted once that is committed."""

    queues: Collection[str] = ()
    counts: Mapping[Series, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handler:
    """An effect of the ends that it `concerns`, which `apply` brings about for several of them.

    `apply` runs in the transaction that takes the ends out of the outbox, and may run again where that transaction is
    repeated: it writes to this database and does nothing else. It goes by indexes, and locks rows in the order of their
    keys, executions before anything else. What it cannot do because of an end itself, not of the database, it raises;
    it is then tried again for each end alone.
    """

    name: str  # stored with ends that are put off, so it stays as it is
    concerns: Callable[[End], bool]
    apply: Callable[[Connection, Sequence[End]], Brought]
