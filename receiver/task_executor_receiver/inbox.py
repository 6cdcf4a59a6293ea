"""Inbox: protocol that applies the effect of an execution once, however often it is delivered.

    admit   a first transaction records the attempt number and commits
    work    a second transaction locks the record, marks the execution as done and runs the handler

After a crash between the two, nothing has happened and the next attempt starts again. After a crash behind the second
commit, the next attempt finds the mark and repeats the stored result. An attempt that finds the lock taken is answered
409 with Retry-After. An attempt older than the recorded number is refused.
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
    """Stored state of an execution: newest attempt, done mark and result."""

    attempt: int
    is_done: bool = False
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """Processing of one delivery; `token` distinguishes two deliveries of the same attempt."""

    execution_id: str
    attempt: int
    token: str


class Overtaken(Exception):  # noqa: N818 - an expected race
    """Another attempt took over; the transaction is rolled back."""


class TransactionalInbox(ABC, Generic[Tx]):
    """Base of inboxes; a store implements the transaction, the lock and three writes.

    `Tx` is the object through which a handler works in the transaction, such as a Session.

    Args:
        retry_after: Seconds that the answer asks the service to wait while another attempt is running.
    """

    def __init__(self, retry_after: int = RETRY_AFTER_SECONDS) -> None:
        self._retry_after = retry_after

    def process(self, delivery: Delivery, handler: Callable[[Delivery, Tx], Any]) -> Answer:
        """Run the handler unless the execution is done already, and return the answer.

        Args:
            delivery: Verified delivery.
            handler: Function of the delivery and the transaction. It must neither commit nor roll back. Its result
                is stored as JSON and becomes the body of this answer and of the answers to later attempts.

        Returns:
            200 with the result, 409 while another or a newer attempt exists, or the answer of a `Refused`.

        Raises:
            Exception: Any other exception of the handler, after a rollback. Answer 500, so that the service retries.
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
                # Another attempt may have run between the two transactions.
                if (answer := self._judge(self._lock(tx, visit, enters=False), visit)) is not None:
                    return answer
                # The mark comes first: a handler that commits against the rules then commits the mark as well.
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
        """Return an immediate answer, or None if the handler has to run."""
        if note is None:
            return busy(self._retry_after)
        if note.is_done:
            return done(note.result, is_replayed=True)
        return stale(self._retry_after) if note.attempt > visit.attempt else None

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Tx]:
        """Open a transaction that commits at the end and rolls back after an exception."""

    @abstractmethod
    def _lock(self, tx: Tx, visit: Visit, *, enters: bool) -> Note | None:
        """Lock and return the note of an execution; None if another transaction holds the lock.

        With `enters` a missing note is created.
        """

    @abstractmethod
    def _admit(self, tx: Tx, visit: Visit) -> None:
        """Record the number of the attempt."""

    @abstractmethod
    def _mark(self, tx: Tx, visit: Visit) -> None:
        """Mark the execution as done by this attempt; raises Overtaken if another attempt took over."""

    @abstractmethod
    def _keep(self, tx: Tx, visit: Visit, result: str | None) -> None:
        """Store the result with the mark; raises RuntimeError if the handler rolled the mark back."""

    def _leave(self, visit: Visit) -> None:
        """Release state that a rollback does not release."""
