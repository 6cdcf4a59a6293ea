"""Horizon: the instant before which no further row of an ended attempt, a change or a job can appear.

A row carries the start of its transaction and becomes visible at its commit. Before the start of the oldest open
transaction, all rows are there, and their order by instant is final.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import TextClause

from app.kernel.db import Database
from app.kernel.sql import statement

# Longer than a transaction of the service may last: three statements of 10 s, and the time until it is cut.
LONGEST_TRANSACTION_SECONDS = 40
# A transaction that calls te_enqueue may last longer; readers of jobs wait for it no longer than this.
LONGEST_CALLERS_SECONDS = 600

# A transaction gets its instant a moment before it is visible, hence the second. Transactions older than the bound are
# dumps or sessions of people, unless they write jobs by te_enqueue. The start of other users' transactions may be
# hidden, but not their existence: such a transaction counts as old as the bound.
_TEXT = """
    SELECT CASE WHEN count(*) FILTER (
                       WHERE query = '<insufficient privilege>'
                         AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'virtualxid')) > 0
                THEN now() - INTERVAL '{longest_transaction_seconds} seconds'
                ELSE LEAST(now(), min(LEAST(xact_start, query_start)) FILTER (
                       WHERE (xact_start IS NOT NULL OR state = 'active')
                         AND (LEAST(xact_start, query_start) > now() - INTERVAL '{longest_transaction_seconds} seconds'
                              {or_calls})))
                     - INTERVAL '1 second' END AS horizon, now() AS now
      FROM pg_stat_activity
     WHERE datname = current_database() AND usesysid IS NOT NULL
    """
_OR_CALLS = """OR xact_start > now() - INTERVAL '{longest_callers_seconds} seconds'
                                 AND pid IN (SELECT pid FROM pg_locks
                                              WHERE relation = to_regclass('jobs') AND mode = 'RowExclusiveLock')"""
HORIZON = statement(
    "events.horizon",
    _TEXT,
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
    or_calls=_OR_CALLS.format(longest_callers_seconds=LONGEST_CALLERS_SECONDS),
)
OF_SERVICE = statement(
    "executions.horizon", _TEXT, longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS, or_calls=""
)
BEHIND_ALL = statement(
    "events.behind_all",
    "SELECT now() - INTERVAL '{longest_transaction_seconds} seconds' AS horizon, now() AS now",
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
)


class Horizon(NamedTuple):
    """The horizon, and the time of the database."""

    at: datetime
    now: datetime


def horizon(database: Database) -> datetime:
    """Return the instant before which no further event can appear."""
    return horizon_and_now(database).at


def horizon_and_now(database: Database) -> Horizon:
    """Return the horizon (see `horizon`) and the time of the database."""
    return _read(database, HORIZON)


def horizon_of_attempts(database: Database) -> Horizon:
    """Return the horizon of the rows that only the service writes: callers of te_enqueue do not hold it back."""
    return _read(database, OF_SERVICE)


def _read(database: Database, on_postgresql: TextClause) -> Horizon:
    row = database.fetch(BEHIND_ALL if database.is_cockroach else on_postgresql)[0]
    return Horizon(row.horizon, row.now)
