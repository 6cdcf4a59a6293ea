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
from datetime import timedelta
from typing import Any, Generic, TypeVar

from task_executor_receiver.answer import Answer, Refused, busy, done, stale, written
from task_executor_receiver.delivery import Delivery

Tx = TypeVar("Tx")
RETRY_AFTER_SECONDS = 5
MIN_KEPT = timedelta(seconds=1)  # Redis counts whole seconds


@dataclass(frozen=True, slots=True)
class Note:
    """Stored state of an execution.

    Attributes:
        attempt: Number of the newest attempt.
        is_done: Whether the effect is applied.
        result: JSON text of the handler's result; None for no result.
    """

    attempt: int
    is_done: bool = False
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """Processing of one delivery.

    Attributes:
        execution_id: Id of the execution.
        attempt: Number of the attempt.
        token: Random text that distinguishes two deliveries of the same attempt.
    """

    execution_id: str
    attempt: int
    token: str


def checked_kept(kept: timedelta) -> timedelta:
    """Return the retention of executions; raises ValueError if it is so short that each repetition has an effect."""
    if kept < MIN_KEPT:
        raise ValueError(
            f"kept: must be at least {MIN_KEPT.seconds} second, and longer than the service keeps executions "
            f"(TE_RETENTION_DAYS), not {kept.total_seconds():g} seconds"
        )
    return kept


class Overtaken(Exception):  # noqa: N818 - an expected race
    """Another attempt took over: a store raises it to roll the transaction back and answer 409."""


class TransactionalInbox(ABC, Generic[Tx]):
    """Base of inboxes; a store implements the transaction, the lock and three writes.

    `Tx` is the object through which a handler works in the transaction, such as a Session. Threads may share an inbox.

    Args:
        retry_after: Seconds that the answer asks the service to wait while another attempt is running.

    Example:
        delivery = verifier.verify(headers, body)
        answer = inbox.process(delivery, handler)  # what Receiver.receive does
    """

    def __init__(self, retry_after: int = RETRY_AFTER_SECONDS) -> None:
        self._retry_after = retry_after

    def process(self, delivery: Delivery, handler: Callable[[Delivery, Tx], Any]) -> Answer:
        """Run the handler unless the execution is done already, and return the answer.

        The handler runs on the calling thread, in a transaction that also marks the execution as done.

        Args:
            delivery: Verified delivery.
            handler: Function of the delivery and the transaction. It must neither commit nor roll back. Its result
                is stored as JSON and becomes the body of this answer and of the answers to later attempts.

        Returns:
            200 with the result, 409 while another or a newer attempt exists, or the answer of a `Refused`.

        Raises:
            ValueError: The handler's result is not JSON or too large; the transaction is rolled back.
            Exception: Any other exception of the handler or the store, after a rollback. Answer 500, so that the
                service retries.
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
        """Open a transaction that commits at the end and rolls back after an exception.

        Raises:
            Overtaken: The store detects at the commit that another attempt took over.
        """

    @abstractmethod
    def _lock(self, tx: Tx, visit: Visit, *, enters: bool) -> Note | None:
        """Lock the note of an execution until the end of the transaction, without a wait for the lock if possible.

        Args:
            tx: Transaction.
            visit: Delivery that is processed.
            enters: True in the first transaction, which creates a missing note; False in the second.

        Returns:
            The note; None if another attempt holds the lock.
        """

    @abstractmethod
    def _admit(self, tx: Tx, visit: Visit) -> None:
        """Record the number of the attempt, in the first transaction."""

    @abstractmethod
    def _mark(self, tx: Tx, visit: Visit) -> None:
        """Mark the execution as done by this attempt, before the handler runs.

        Raises:
            Overtaken: Another attempt took over.
        """

    @abstractmethod
    def _keep(self, tx: Tx, visit: Visit, result: str | None) -> None:
        """Store the result with the mark, after the handler.

        Args:
            tx: Transaction.
            visit: Delivery that is processed.
            result: JSON text of the handler's result; None for no result.

        Raises:
            RuntimeError: The handler rolled the mark back.
        """

    def _leave(self, visit: Visit) -> None:
        """Release state that a rollback does not release; called after a failed or refused attempt."""
