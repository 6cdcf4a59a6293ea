"""Counts of open dead letters by endpoint, and of completion events that wait for their handlers."""

from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import statement

MAX_LETTERS = 1_000  # counted of an endpoint
MAX_ENDPOINTS = 200
STRIDE = 2 * MAX_LETTERS  # letters that a statement reads
MAX_ENDS = 1_000
LATE_SECONDS = 60.0  # a worker or scheduler without backlog needs a few

# The first open letters behind an endpoint, counted by endpoint: the count of the last endpoint may be incomplete,
# which does not matter from MAX_LETTERS on.
OPEN_LETTERS = statement(
    "stats.open_letters",
    """
    SELECT endpoint, count(*) AS n FROM (
      SELECT endpoint FROM dead_letters WHERE resolved_at IS NULL AND endpoint > :after
       ORDER BY endpoint, failed_at, letter_id LIMIT :most) AS found
     GROUP BY endpoint ORDER BY endpoint
    """,
)
LATE_ENDS = statement(
    "stats.late_ends",
    """
    SELECT count(*) AS n FROM (
      SELECT end_id FROM execution_ends WHERE ended_at < now() - CAST(:late_ms AS BIGINT) * INTERVAL '1 millisecond'
       LIMIT :most) AS late
    """,
)


class OpenLetters(NamedTuple):
    """Number of open letters of an endpoint, up to MAX_LETTERS."""

    endpoint: str
    letters: int


def open_letters(database: Database) -> list[OpenLetters]:
    """Count open letters by endpoint, for the first MAX_ENDPOINTS endpoints by name."""
    found: list[OpenLetters] = []
    while len(found) < MAX_ENDPOINTS:
        after = found[-1].endpoint if found else ""
        rows = database.fetch(OPEN_LETTERS, {"after": after, "most": STRIDE})
        is_end = sum(row.n for row in rows) < STRIDE
        whole = rows if is_end or rows[-1].n >= MAX_LETTERS else rows[:-1]
        found += [OpenLetters(row.endpoint, min(row.n, MAX_LETTERS)) for row in whole]
        if is_end:
            break
    return found[:MAX_ENDPOINTS]


def late_ends(database: Database, *, late_seconds: float) -> int:
    """Count completion events that have waited longer than `late_seconds` for their handlers, up to MAX_ENDS."""
    (row,) = database.fetch(LATE_ENDS, {"late_ms": int(late_seconds * 1000), "most": MAX_ENDS})
    number: int = row.n
    return number
