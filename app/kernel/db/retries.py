"""Retries: the cause of an error, the statements that run again, and the breaker of a hanging database.

The rule uses the SQLSTATE, never the exception class: psycopg2 puts "outcome unknown" (40003) in the same class as a
serialization failure. Only a few SQLSTATE classes blame the statement's values or text. All other errors, known or
not, blame the database: they become UnavailableError, and the caller may retry later. Each of our statements may be
repeated: clients make the ids, and each write has a witness that makes its second run a no-op.
"""

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from app.kernel.db import deadline
from app.kernel.db.engine import ANSWER_SECONDS
from app.kernel.errors import LockedError, UnavailableError
from app.kernel.function_types import Run
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import STATEMENT_RETRIES

T = TypeVar("T")

log = logging.getLogger(__name__)

CONFLICT = frozenset({"40001", "40P01", "55P03"})  # serialization failure, deadlock, lock timeout: certainly undone
LOCKED = "55P03"
CONNECTION = "connection"  # in metrics: it broke, so there is no SQLSTATE
OUTCOME_UNKNOWN = "40003"
MAX_TRIES = 8
MAX_LOCK_WAITS = 2  # each takes the lock timeout
# A value that cannot be stored, a broken constraint, a value too large or deep for any server.
_ROWS_FAULTS = ("22", "23", "54")
_STATEMENTS_FAULT = "42"  # no such table or column, no permission


class DatabaseBreaker:
    """Open while the database hangs: one caller at a time tries the database; every other caller fails at once.

    Otherwise the threads would wait their full times in turn, and callers would wait forever for a thread.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._is_probed = False

    def trip(self) -> None:
        """Open the breaker: a caller got no answer in time."""
        self.is_open = True

    def reset(self) -> None:
        """Close the breaker: the database has answered."""
        self.is_open = False

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Run the block; raises UnavailableError while the breaker is open and another caller is trying."""
        with self._lock:
            mine = self.is_open
            if mine and self._is_probed:
                raise UnavailableError("The database does not answer; retry later.")
            self._is_probed = self._is_probed or mine
        try:
            yield
        finally:
            if mine:
                with self._lock:
                    self._is_probed = False


def retried(run: Run[T], breaker: DatabaseBreaker, *, most_lost: int = 1) -> T:
    """Run until success or a final failure; a lost connection or outcome is retried `most_lost` times."""
    lost, waited, began = 0, 0, time.monotonic()
    with breaker.probe() if breaker.is_open else nullcontext():
        for tries in range(1, MAX_TRIES + 1):
            if time.monotonic() >= deadline.current.at:
                _end_at_deadline(breaker, lost)
            try:
                result = run()
            except DBAPIError as error:
                state = sqlstate(error)
                if is_rows_fault(error):
                    _log_misfit(error)
                    raise
                if state in CONFLICT:
                    if (waited := waited + (state == LOCKED)) >= MAX_LOCK_WAITS:
                        raise LockedError("Another transaction holds a lock; retry later.") from error
                    time.sleep(random.uniform(0, 0.005 * 2**tries))
                elif (lost := lost + 1) > most_lost or not _may_reconnect(error):
                    raise _unreachable(error, breaker, began) from error
                PROCESS.add(STATEMENT_RETRIES, state or CONNECTION, amount=tries < MAX_TRIES)
            else:
                if breaker.is_open:
                    breaker.reset()
                return result
    raise UnavailableError("The database is too busy; retry later.")


def _end_at_deadline(breaker: DatabaseBreaker, lost: int) -> None:
    if lost:
        breaker.trip()
    deadline.check()


def _log_misfit(error: DBAPIError) -> None:
    if is_statements_fault(error):
        log.error(
            "schema or permissions do not fit this release: %s; run `flask --app app doctor`", driver_message(error)
        )


def _unreachable(error: DBAPIError, breaker: DatabaseBreaker, began: float) -> UnavailableError:
    if sqlstate(error) is None and time.monotonic() - began > ANSWER_SECONDS:
        breaker.trip()
    return UnavailableError("The database cannot be reached; retry later.", reason=driver_message(error))


def _may_reconnect(error: DBAPIError) -> bool:
    # A pooled connection may have died while it was idle, so a new connection is worth a try. The same holds if only
    # the outcome is unknown (40003): the second run finds the effect of the first.
    return error.connection_invalidated or sqlstate(error) == OUTCOME_UNKNOWN


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of a driver error; None if the connection broke."""
    return getattr(error.orig, "pgcode", None)


def driver_message(error: SQLAlchemyError) -> str:
    """Return the first line of the driver's message; SQLAlchemy's own text includes the statement and its values."""
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]


def explained(error: Exception) -> str:
    """Return a reason for the log, without values of the statement."""
    if isinstance(error, UnavailableError):
        return error.explained
    return driver_message(error) if isinstance(error, SQLAlchemyError) else type(error).__name__


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether another transaction held a lock for longer than the lock timeout."""
    return isinstance(error, DBAPIError) and sqlstate(error) == LOCKED


def is_rows_fault(error: BaseException) -> bool:
    """Return whether the statement's values or text caused an error; other errors of the database may pass.

    Unknown tables or columns and missing permissions count, too: an operator has to resolve them, and waiting does not
    help.
    """
    if isinstance(error, DBAPIError):
        state = sqlstate(error) or ""
        return state.startswith((*_ROWS_FAULTS, _STATEMENTS_FAULT))
    # Values that the driver cannot send, such as a NUL or half a surrogate pair.
    return isinstance(error, StatementError | ValueError)


def is_statements_fault(error: BaseException) -> bool:
    """Return whether the schema or the permissions do not fit the code, so that every row would fail."""
    return isinstance(error, DBAPIError) and (sqlstate(error) or "").startswith(_STATEMENTS_FAULT)
