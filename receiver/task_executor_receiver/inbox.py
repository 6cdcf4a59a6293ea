"""Inbox: the protocol by which an execution has its effect once, however often it is delivered.

    admit   a transaction of its own notes the attempt, durable before anything else happens
    work    one transaction locks the note, marks the execution as done, and has the handler's effect in it

Whoever dies in between has had no effect, and the next attempt begins anew; whoever dies after the commit has had it,
and the next attempt finds the mark. An attempt that comes while another has the lock is asked to come again, and one
that is older than the note has no effect any more.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from task_executor_receiver.answer import Answer, Refused, busy, done, stale, written
from task_executor_receiver.delivery import Delivery

Tx = TypeVar("Tx")
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Note:
    """What an inbox knows of an execution."""

    attempt: int
    is_done: bool = False
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """One delivery at the inbox; `token` tells it from another delivery of the same attempt."""

    execution_id: str
    attempt: int
    token: str


class Overtaken(Exception):  # noqa: N818 - a turn of events
    """Another attempt was quicker: nothing of this transaction remains."""


class TransactionalInbox(ABC, Generic[Tx]):
    """Lets each execution have its effect once; `Tx` is that by which a handler works in the transaction.

    What an inbox of a certain store has to give are the transaction, the lock, and three writes. `retry_after` is what
    an attempt is told that comes while another one is at work, in seconds.
    """

    def __init__(self, retry_after: int = RETRY_AFTER_SECONDS) -> None:
        self._retry_after = retry_after

    def process(self, delivery: Delivery, handler: Callable[[Delivery, Tx], Any]) -> Answer:
        """Let a delivery have its effect, unless it has had it, and return what to answer.

        What the handler returns is the answer's body and stored with the mark, as JSON; a later attempt is answered
        with the same. It must neither commit nor roll back. An exception of its own rolls everything back and leaves
        here: let it become a 500, and the service tries again.
        """
        visit = Visit(delivery.execution_id, delivery.attempt, secrets.token_hex(8))
        try:
            with self._transaction() as tx:
                answer = self._judge(self._lock(tx, visit, enters=True), visit)
                if answer is None:
                    self._admit(tx, visit)
            return answer or self._work(visit, delivery, handler)
        except Overtaken:
            return busy(self._retry_after)

    def _work(self, visit: Visit, delivery: Delivery, handler: Callable[[Delivery, Tx], Any]) -> Answer:
        try:
            with self._transaction() as tx:
                # Others may have come between the two transactions.
                if (answer := self._judge(self._lock(tx, visit, enters=False), visit)) is not None:
                    return answer
                # First, so that a handler that commits against the rules commits the mark too.
                self._mark(tx, visit)
                result = written(handler(delivery, tx))
                self._keep(tx, visit, result)
            return done(result)
        except Refused as refusal:
            self._leave(visit)
            return refusal.answer
        except BaseException:
            self._leave(visit)
            raise

    def _judge(self, note: Note | None, visit: Visit) -> Answer | None:
        """Return what to answer at once; None for an attempt that has to work."""
        if note is None:
            return busy(self._retry_after)
        if note.is_done:
            return done(note.result, is_replayed=True)
        return stale(self._retry_after) if note.attempt > visit.attempt else None

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Tx]:
        """Begin a transaction that is committed at the end, and rolled back by an exception."""

    @abstractmethod
    def _lock(self, tx: Tx, visit: Visit, *, enters: bool) -> Note | None:
        """Return the note of an execution, locked for this transaction; None when another has it.

        One that `enters` makes the note if there is none.
        """

    @abstractmethod
    def _admit(self, tx: Tx, visit: Visit) -> None:
        """Note the attempt."""

    @abstractmethod
    def _mark(self, tx: Tx, visit: Visit) -> None:
        """Mark the execution as done by this attempt; raises Overtaken when it no longer is this attempt's."""

    @abstractmethod
    def _keep(self, tx: Tx, visit: Visit, result: str | None) -> None:
        """Keep the result, if there is one, with the mark; raises where a rollback has taken the mark away."""

    def _leave(self, visit: Visit) -> None:
        """Give up what a rollback does not."""
