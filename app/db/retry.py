"""Retries: which failed statements run again, and how often.

The rule is by SQLSTATE, never by exception class: psycopg2 files "outcome unknown" (40003) in the same class as
a serialization failure. Every statement of ours may be repeated: ids come from the client, and each write has a
witness that makes its second run a no-op.
"""

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.db import deadline
from app.db.breaker import Breaker
from app.db.stalled import ANSWER_SECONDS
from app.errors import UnavailableError

T = TypeVar("T")

CONFLICT = frozenset({"40001", "40P01", "55P03"})  # serialization failure, deadlock, lock timeout: certainly undone
OUTCOME_UNKNOWN = "40003"
MAX_TRIES = 8
_LOST_CLASSES = ("08", "57P", "53", "XX")


def retried(run: Callable[[], T], breaker: Breaker, *, most_lost: int = 1) -> T:
    """Run until it succeeds, or fails for good; a lost connection or outcome is tried again `most_lost` times."""
    lost, began = 0, time.monotonic()
    with breaker.probe() if breaker.is_open else nullcontext():
        for tries in range(1, MAX_TRIES + 1):
            if time.monotonic() >= deadline.current.at:
                if lost:
                    breaker.trip()
                deadline.check()
            try:
                result = run()
            except DBAPIError as error:
                if is_conflict(error):
                    time.sleep(random.uniform(0, 0.005 * 2**tries))
                elif not is_lost(error):
                    raise
                elif (lost := lost + 1) > most_lost or not _may_reconnect(error):
                    raise _unreachable(error, breaker, began) from error
            else:
                if breaker.is_open:
                    breaker.reset()
                return result
    raise UnavailableError("the database is too busy; try again")


def _may_reconnect(error: DBAPIError) -> bool:
    # A pooled connection may have died while it was idle, so a fresh one is worth a try. So it is when only the outcome
    # is unknown (40003): the second run finds what the first one did.
    return error.connection_invalidated or sqlstate(error) == OUTCOME_UNKNOWN


def _unreachable(error: DBAPIError, breaker: Breaker, began: float) -> UnavailableError:
    if sqlstate(error) is None and time.monotonic() - began > ANSWER_SECONDS:
        breaker.trip()
    return UnavailableError("the database cannot be reached; try again", reason=driver_message(error))


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of a driver error; None when the connection itself broke."""
    return getattr(error.orig, "pgcode", None)


def driver_message(error: SQLAlchemyError) -> str:
    """Return the first line of the driver's message; SQLAlchemy's own text includes the statement and its values."""
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]


def is_conflict(error: DBAPIError) -> bool:
    """Return whether the transaction was certainly rolled back and may simply run again."""
    return sqlstate(error) in CONFLICT


def is_lost(error: DBAPIError) -> bool:
    """Return whether the connection, or the outcome of the statement, was lost."""
    state = sqlstate(error)
    if state is None:
        return error.connection_invalidated or type(error).__name__ in {"OperationalError", "InterfaceError"}
    return state in {OUTCOME_UNKNOWN, "57014"} or state.startswith(_LOST_CLASSES)
