"""Processor: takes completion events out of the outbox and runs their handlers, each exactly once, in one transaction.

If a handler fails, the events of the batch are tried singly: the other handlers of a failing event run, and its row
stays for the failed handler, for a later try. A single event hardly waits for locks, for example of an endpoint that
very many events call back; its handler has failed then.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.kernel.db import Database, hardly_wait
from app.kernel.db.hot import NotPreparedError
from app.kernel.db.retries import driver_message, is_lock_timeout, is_rows_fault
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Stopping, never
from app.kernel.metrics import PROCESS, series
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Values
from app.kernel.unreadable import report
from app.queue.ending import outbox_rows
from app.queue.ending.handler import Handler
from app.queue.ending.outbox_rows import End

log = logging.getLogger(__name__)

BATCH = 200  # events in one transaction
FIRST_WAIT_MS = 2_000
LONGEST_WAIT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class OutboxResult:
    """Numbers of events that are done and deferred, and of executions that became due, by queue.

    `follow_ups` are names of handlers and keys of work that they continue: see `OutboxProcessor.follow_up`. `written`
    are ids of events that the handlers have written.
    """

    ends: int = 0
    defer: int = 0
    queues: Counter[str] = field(default_factory=Counter)
    follow_ups: frozenset[tuple[str, str]] = frozenset()
    written: tuple[str, ...] = ()
    counts: Counter[Series] = field(default_factory=Counter, compare=False)  # of handlers, until they are committed
    durations: Sequence[tuple[Series, float]] = field(default=(), compare=False)

    def __add__(self, other: "OutboxResult") -> "OutboxResult":
        return OutboxResult(
            self.ends + other.ends,
            self.defer + other.defer,
            self.queues + other.queues,
            self.follow_ups | other.follow_ups,
            self.written + other.written,
        )


class _HandlerError(Exception):
    def __init__(self, handler: Handler) -> None:
        super().__init__(handler.name)
        self.handler = handler


class OutboxProcessor:
    """Handles completion events of one database. Threads and processes may run several processors concurrently.

    The handlers run in their order; see `completion_handlers`. `stopping` is asked between two transactions.
    """

    def __init__(
        self,
        database: Database,
        *,
        handlers: Sequence[Handler],
        values: Values = PROCESS,
        stopping: Stopping = never,
    ) -> None:
        self._stopping = stopping
        self._database = database
        self._handlers = handlers
        self._values = values
        values.begin(series.ENDS_HANDLED)
        values.begin(series.EFFECTS_FAILED, [handler.name for handler in handlers])
        for counter in (counter for handler in handlers for counter in handler.counters):
            values.begin(counter)

    def handle(self, end_ids: Sequence[str]) -> OutboxResult:
        """Handle events that no other process handles and that have not failed before; 200 share a transaction.

        Raises UnavailableError if the database cannot be reached; some events may be left.
        """
        done = OutboxResult()
        for start in range(0, len(end_ids), BATCH):
            if self._stopping():
                break
            batch = end_ids[start : start + BATCH]
            try:
                done += self._counted(self._database.transact(partial(self._try_batch, batch)))
            except (_HandlerError, UnavailableError, ValueError):
                for end_id in batch:
                    if self._stopping():
                        break
                    done += self.handle_alone(end_id)
        return done

    def handle_alone(self, end_id: str) -> OutboxResult:
        """Handle one event unless another process handles it, and defer it for handlers that fail.

        Raises UnavailableError if the database cannot be reached; the event is left.
        """
        failed = set[str]()
        while True:
            try:
                return self._counted(self._database.transact(partial(self._try_alone, end_id, failed)))
            except _HandlerError as error:
                name = error.handler.name
                failed.add(name)
                self._values.add(series.EFFECTS_FAILED, name)
                log.error("handler %s of completion event %s failed: %s; retrying", name, end_id, _explained(error))  # noqa: TRY400
            except ValueError as error:  # the row has a value that only another release knows
                report(f"completion event {end_id}", error)
                return OutboxResult()
            except UnavailableError:
                # If the database accepts this, only the event fails: another session may have locked its rows.
                every = {handler.name for handler in self._handlers}
                return self._database.transact(partial(self._try_alone, end_id, every))

    def follow_up(self, name: str, key: str) -> OutboxResult:
        """Continue the work of a handler after a commit, by one of its follow-ups; its result may have further ones.

        Raises UnavailableError if the database cannot be reached; a chore continues the work.
        """
        handler = next(handler for handler in self._handlers if handler.name == name)
        if handler.follow_up is None:
            return OutboxResult()
        done = handler.follow_up(self._database, key)
        follow_ups = frozenset((name, each) for each in done.follow_ups)
        return OutboxResult(queues=Counter(done.queues), follow_ups=follow_ups, written=tuple(done.ends))

    def _counted(self, done: OutboxResult) -> OutboxResult:
        """Add committed counts to the metrics; a transaction may have run several times."""
        self._values.add(series.ENDS_HANDLED, amount=done.ends)
        for one, amount in done.counts.items():
            self._values.add(one, amount=amount)
        for one, value in done.durations:
            self._values.observe(one, value)
        return done

    def _try_batch(self, end_ids: Collection[str], connection: Connection) -> OutboxResult:
        hardly_wait(connection)  # else one locked row would keep all events
        ends = outbox_rows.take(connection, end_ids)
        return self._run(connection, ends, OutboxResult(len(ends)))

    def _try_alone(self, end_id: str, failed: Collection[str], connection: Connection) -> OutboxResult:
        """Run the handlers of an event except the `failed` handlers, for which it is deferred."""
        hardly_wait(connection)
        end = outbox_rows.lock_one(connection, end_id)
        if end is None:
            return OutboxResult()
        left = {handler.name for handler in self._handlers if handler.name in failed and _remains(handler, end)}
        left |= set(end.effects_left or ()) - {handler.name for handler in self._handlers}  # of another release
        if not outbox_rows.leave(connection, end, left, wait_ms(end.tries)):
            return OutboxResult()
        return self._run(connection, [end], OutboxResult(int(not left), int(bool(left))), without=failed, is_alone=True)

    def _run(
        self,
        connection: Connection,
        ends: Sequence[End],
        done: OutboxResult,
        *,
        without: Collection[str] = (),
        is_alone: bool = False,
    ) -> OutboxResult:
        """Run the handlers of events except the handlers `without`; return `done` with their results."""
        queues, counts, follow_ups = Counter[str](), Counter[Series](), set[tuple[str, str]]()
        durations, written = list[tuple[Series, float]](), list[str]()
        for handler in self._handlers:
            concerned = [end for end in ends if handler.name not in without and _remains(handler, end)]
            if concerned:
                apply = handler.apply if is_alone else handler.apply_together or handler.apply
                try:
                    brought = apply(connection, concerned)
                except NotPreparedError:
                    raise
                except Exception as error:
                    is_ends_fault = is_rows_fault(error) or (is_alone and is_lock_timeout(error))
                    if isinstance(error, DBAPIError) and not is_ends_fault:
                        raise  # not due to the event: the transaction is tried again
                    raise _HandlerError(handler) from error
                queues.update(brought.queues)
                counts.update(brought.counts)
                durations += brought.durations
                written += brought.ends
                follow_ups.update((handler.name, key) for key in brought.follow_ups)
        done = replace(done, queues=queues, counts=counts, durations=durations)
        return replace(done, follow_ups=frozenset(follow_ups), written=tuple(written))


def _remains(handler: Handler, end: End) -> bool:
    return handler.concerns(end) and (end.effects_left is None or handler.name in end.effects_left)


def _explained(error: _HandlerError) -> str:
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        return driver_message(cause)
    if cause is None:
        return error.handler.name
    # Not the text of the exception, which may quote a receiver's answer.
    place = traceback.extract_tb(cause.__traceback__)[-1]
    return f"{type(cause).__name__} in {place.name}, line {place.lineno} of {Path(place.filename).name}"


def wait_ms(tries: int) -> int:
    """Return the wait before the next try of an event that has failed `tries` times before."""
    return min(FIRST_WAIT_MS << min(tries, 20), LONGEST_WAIT_MS)
