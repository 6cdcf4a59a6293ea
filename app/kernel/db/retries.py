"""Retries: whose fault an error is, which failed statements run again, and how often.

The rule is by SQLSTATE, never by exception class: psycopg2 files "outcome unknown" (40003) in the same class as
a serialization failure. Only a few classes blame what the statement was given. All others are trouble of the database,
known or not: they end as UnavailableError, and whoever can waits for their end. Every statement of ours may be
repeated: ids come from the client, and each write has a witness that makes its second run a no-op.
"""

import logging
import random
import time
from contextlib import nullcontext
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from app.kernel.db import deadline
from app.kernel.db.circuit import DatabaseBreaker
from app.kernel.db.stalled import ANSWER_SECONDS
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Run
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import STATEMENT_RETRIES

T = TypeVar("T")

log = logging.getLogger(__name__)

CONFLICT = frozenset({"40001", "40P01", "55P03"})  # serialization failure, deadlock, lock timeout: certainly undone
LOCKED = "55P03"
OUTCOME_UNKNOWN = "40003"
MAX_TRIES = 8
MAX_LOCK_WAITS = 2  # each has lasted for the lock timeout already
# A value that cannot be stored, a broken constraint, too large or deep for any server.
_ROWS_FAULTS = ("22", "23", "54")
_STATEMENTS_FAULT = "42"  # no such table or column, no permission


def retried(run: Run[T], breaker: DatabaseBreaker, *, most_lost: int = 1) -> T:
    """Run until it succeeds, or fails for good; a lost connection or outcome is tried again `most_lost` times."""
    lost, waited, began = 0, 0, time.monotonic()
    with breaker.probe() if breaker.is_open else nullcontext():
        for tries in range(1, MAX_TRIES + 1):
            if time.monotonic() >= deadline.current.at:
                _end(breaker, lost)
            try:
                result = run()
            except DBAPIError as error:
                if is_rows_fault(error):
                    _alarm(error)
                    raise
                if is_conflict(error):
                    if (waited := waited + (sqlstate(error) == LOCKED)) >= MAX_LOCK_WAITS:
                        break
                    time.sleep(random.uniform(0, 0.005 * 2**tries))
                elif (lost := lost + 1) > most_lost or not _may_reconnect(error):
                    raise _unreachable(error, breaker, began) from error
                PROCESS.add(STATEMENT_RETRIES, sqlstate(error) or "connection", amount=tries < MAX_TRIES)
            else:
                if breaker.is_open:
                    breaker.reset()
                return result
    raise UnavailableError("the database is too busy; try again")


def _end(breaker: DatabaseBreaker, lost: int) -> None:
    """Raise TimedOutError."""
    if lost:
        breaker.trip()
    deadline.check()


def _alarm(error: DBAPIError) -> None:
    if is_statements_fault(error):
        log.error("the schema or its permissions do not fit this version: %s", driver_message(error))


def _may_reconnect(error: DBAPIError) -> bool:
    # A pooled connection may have died while it was idle, so a fresh one is worth a try. So it is when only the outcome
    # is unknown (40003): the second run finds what the first one did.
    return error.connection_invalidated or sqlstate(error) == OUTCOME_UNKNOWN


def _unreachable(error: DBAPIError, breaker: DatabaseBreaker, began: float) -> UnavailableError:
    if sqlstate(error) is None and time.monotonic() - began > ANSWER_SECONDS:
        breaker.trip()
    return UnavailableError("the database cannot be reached; try again", reason=driver_message(error))


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of a driver error; None when the connection itself broke."""
    return getattr(error.orig, "pgcode", None)


def driver_message(error: SQLAlchemyError) -> str:
    """Return the first line of the driver's message; SQLAlchemy's own text includes the statement and its values."""
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]


def explained(error: Exception) -> str:
    """Return a reason for the log, without any value that a statement was given."""
    if isinstance(error, UnavailableError):
        return error.explained
    return driver_message(error) if isinstance(error, SQLAlchemyError) else type(error).__name__


def is_conflict(error: DBAPIError) -> bool:
    """Return whether the transaction was certainly rolled back and may simply run again."""
    return sqlstate(error) in CONFLICT


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether somebody else has kept a lock for longer than the transaction waits for one."""
    return isinstance(error, DBAPIError) and sqlstate(error) == LOCKED


def is_rows_fault(error: BaseException) -> bool:
    """Return whether an error is due to what the statement was given; else it is the database's, and may pass.

    An unknown table or column and a missing permission count too, although an operator must see to it: waiting does
    not help.
    """
    if isinstance(error, DBAPIError):
        state = sqlstate(error) or ""
        return state.startswith((*_ROWS_FAULTS, _STATEMENTS_FAULT))
    # What the driver cannot send at all, such as a NUL or half a surrogate pair.
    return isinstance(error, StatementError | ValueError)


def is_statements_fault(error: BaseException) -> bool:
    """Return whether no row could have passed, because the schema or the permissions do not fit the code."""
    return isinstance(error, DBAPIError) and (sqlstate(error) or "").startswith(_STATEMENTS_FAULT)
