"""Handling: take ends out of the outbox and bring about their effects, in one transaction, so each exactly once.

An end with an effect that fails holds up no other: the ends of its batch are tried one by one, what it can have it
gets, and it stays for the rest, to be tried again after a wait. Alone it hardly waits for what somebody has locked, say
an endpoint that very many ends call back: that effect has failed then.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.kernel.db import Database, hardly_wait
from app.kernel.db.retries import driver_message, is_lock_timeout, is_rows_fault
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Stopping, never
from app.kernel.metrics import PROCESS, series
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Values
from app.queue.ending import outbox_taking
from app.queue.ending.handler import Handler
from app.queue.ending.outbox_rows import End

log = logging.getLogger(__name__)

BATCH = 200  # ends in one transaction
FIRST_WAIT_MS = 2_000
LONGEST_WAIT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Handled:
    """How many ends have had all their effects, how many were put off, and the queues in which something is due."""

    ends: int = 0
    put_off: int = 0
    queues: frozenset[str] = frozenset()
    counts: Counter[Series] = field(default_factory=Counter, compare=False)  # of effects, until they are committed

    def __add__(self, other: "Handled") -> "Handled":
        return Handled(self.ends + other.ends, self.put_off + other.put_off, self.queues | other.queues)


class _EffectError(Exception):
    """An effect that failed."""

    def __init__(self, effect: Handler) -> None:
        super().__init__(effect.name)
        self.effect = effect


class OutboxProcessor:
    """Handles ends over one database, and no more of many once `stopping`, which is asked before each transaction."""

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
        for effect in handlers:
            values.add(
                series.EFFECTS_FAILED, effect.name, amount=0
            )  # a rate needs to have seen that before the first one

    def handle(self, end_ids: Sequence[str]) -> Handled:
        """Handle those of these ends that nobody else handles and that have not failed before.

        Raises UnavailableError when the database cannot be reached: some may be left then.
        """
        done = Handled()
        for start in range(0, len(end_ids), BATCH):
            if self._stopping():
                break
            done += self._handle_batch(end_ids[start : start + BATCH])
        return done

    def handle_alone(self, end_id: str) -> Handled:
        """Handle an end by itself, and put it off if one of its effects fails; raises UnavailableError."""
        failed = set[str]()
        while True:
            try:
                return self._counted(self._database.transact(partial(self._try_alone, end_id, failed)))
            except _EffectError as error:
                failed.add(error.effect.name)
                self._values.add(series.EFFECTS_FAILED, error.effect.name)
                log.error("%s of the end %s failed: %s", error.effect.name, end_id, _explained(error))  # noqa: TRY400
            except UnavailableError:
                # Where the database takes this, it is about the end: another session may have locked what it needs.
                return self._database.transact(partial(self._put_off, end_id))

    def _handle_batch(self, end_ids: Sequence[str]) -> Handled:
        try:
            return self._counted(self._database.transact(partial(self._take_and_follow, end_ids)))
        except (_EffectError, UnavailableError):
            done = Handled()
            for end_id in end_ids:
                if self._stopping():
                    break
                done += self.handle_alone(end_id)
            return done

    def _counted(self, done: Handled) -> Handled:
        """Count what is committed; a transaction may have run several times."""
        self._values.add(series.ENDS_HANDLED, amount=done.ends)
        for one, amount in done.counts.items():
            self._values.add(one, amount=amount)
        return done

    def _take_and_follow(self, end_ids: Collection[str], connection: Connection) -> Handled:
        ends = outbox_taking.take(connection, end_ids)
        return self._follow(connection, ends, Handled(len(ends)))

    def _try_alone(self, end_id: str, failed: Collection[str], connection: Connection) -> Handled:
        """Bring about all effects of an end but those that `failed`, for which it is put off."""
        hardly_wait(connection)
        end = outbox_taking.lock_one(connection, end_id)
        if end is None:
            return Handled()
        left = [effect.name for effect in self._left_of(end) if effect.name in failed] + self._foreign(end)
        if left:
            is_ours = outbox_taking.put_off(connection, end, left=left, delay_ms=wait_ms(end.tries))
        else:
            is_ours = outbox_taking.delete(connection, end)
        if not is_ours:
            return Handled()
        return self._follow(connection, [end], Handled(int(not left), int(bool(left))), without=failed, is_alone=True)

    def _put_off(self, end_id: str, connection: Connection) -> Handled:
        end = outbox_taking.lock_one(connection, end_id)
        if end is None:
            return Handled()
        left = [effect.name for effect in self._left_of(end)] + self._foreign(end)
        return Handled(put_off=int(outbox_taking.put_off(connection, end, left=left, delay_ms=wait_ms(end.tries))))

    def _follow(
        self,
        connection: Connection,
        ends: Sequence[End],
        done: Handled,
        *,
        without: Collection[str] = (),
        is_alone: bool = False,
    ) -> Handled:
        """Bring about all effects of ends but those named `without`; returns what is `done` with what they brought."""
        queues, counts = set[str](), Counter[Series]()
        for effect in self._handlers:
            concerned = [end for end in ends if effect.name not in without and effect in self._left_of(end)]
            if concerned:
                try:
                    brought = effect.apply(connection, concerned)
                except Exception as error:
                    is_ends_fault = is_rows_fault(error) or (is_alone and is_lock_timeout(error))
                    if isinstance(error, DBAPIError) and not is_ends_fault:
                        raise  # the database's: the transaction is tried again
                    raise _EffectError(effect) from error
                queues.update(brought.queues)
                counts.update(brought.counts)
        return replace(done, queues=frozenset(queues), counts=counts)

    def _left_of(self, end: End) -> list[Handler]:
        return [
            effect
            for effect in self._handlers
            if effect.concerns(end) and (end.effects_left is None or effect.name in end.effects_left)
        ]

    def _foreign(self, end: End) -> list[str]:
        """Return what of an end only another release knows how to bring about."""
        return sorted((end.effects_left or frozenset()) - {effect.name for effect in self._handlers})


def _explained(error: _EffectError) -> str:
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        return driver_message(cause)
    return "".join(traceback.format_exception_only(cause)).strip() if cause else error.effect.name


def wait_ms(tries: int) -> int:
    """Return for how long an end is put off that has failed so many times before."""
    return min(FIRST_WAIT_MS << min(tries, 20), LONGEST_WAIT_MS)
