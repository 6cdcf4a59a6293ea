"""The walk of a redrive: the open letters of its filter, the oldest first, at its rate, each exactly once.

Each letter is redriven in a transaction that also counts it and notes how far the walk came, so who goes on after a
kill -9 begins behind the last one. What failed after the beginning is left alone: it ends, and what fails again is not
tried for ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import literal, select, tuple_

from app.db import Database
from app.db.paging import Position
from app.errors import TaskExecutorError
from app.executions.reading.dead_letters import DeadLetter, LetterFilter
from app.formats import EPOCH
from app.jobs import redrives
from app.jobs.creation import Creator
from app.jobs.redrive import Anew, redrive
from app.jobs.redrives import Redrive
from app.sql import statement
from schema import tables

MOST_COUNTED = 10_000  # letters that a preview looks at, and a walk in a second
SAMPLE = 10
MOST_RUNNING = 20
PORTION = 100  # letters that are looked up at once
HELD_SECONDS = 15  # a scheduler that died is replaced after this
_MOST_REFUSAL = 500

_D = tables.dead_letters.c

RUNNING = statement(
    "redrives.running",
    "SELECT redrive_id FROM redrives WHERE status = 'RUNNING' ORDER BY redrive_id LIMIT :limit",
)
HOLD = statement(
    "redrives.hold",
    """
    UPDATE redrives SET holder = :holder, held_until = now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second'
     WHERE redrive_id = :redrive_id AND status = 'RUNNING'
       AND (holder = :holder OR held_until IS NULL OR held_until < now())
    RETURNING redrive_id
    """,
)
COUNT = statement(
    "redrives.count",
    """
    UPDATE redrives
       SET redriven = redriven + CAST(:redriven AS BIGINT), refused = refused + CAST(:refused AS BIGINT),
           last_refusal = COALESCE(CAST(:refusal AS TEXT), last_refusal), reached_at = :reached_at,
           reached_id = :reached_id
     WHERE redrive_id = :redrive_id AND status = 'RUNNING' AND holder = :holder
    RETURNING redrive_id
    """,
)
FINISH = statement(
    "redrives.finish",
    """
    UPDATE redrives SET status = 'DONE', ended_at = now(), held_until = NULL
     WHERE redrive_id = :redrive_id AND status = 'RUNNING' AND holder = :holder
    """,
)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a redrive would see to: how many letters, and the first ones; not `is_complete`: it may be more."""

    count: int
    sample: Sequence[DeadLetter]
    is_complete: bool


class _NotHeldError(Exception):
    """Somebody has paused or stopped the redrive, or another scheduler walks."""


def preview(database: Database, wanted: LetterFilter) -> Preview:
    """Look for the letters that a redrive of this filter would begin with; among 10,000 of its index at most."""
    found, after, looked = list[DeadLetter](), Position(EPOCH, ""), 0
    while looked < MOST_COUNTED:
        page = _next(database, wanted, after)
        found += [letter for letter in page if _fits(letter, wanted)]
        looked += len(page)
        if len(page) < PORTION:
            return Preview(len(found), found[:SAMPLE], is_complete=True)
        after = page[-1].position
    return Preview(len(found), found[:SAMPLE], is_complete=False)


class Walker:
    """Walks the redrives that are under way, for one scheduler, `who`."""

    def __init__(
        self, creator: Creator, who: str, *, hint: Callable[[str], object], stopping: Callable[[], bool]
    ) -> None:
        self._creator = creator
        self._hint = hint
        self._database = creator.database
        self._who = who
        self._stopping = stopping

    def walk(self) -> tuple[int, int]:
        """Redrive as many letters as each of them may in a second; returns how many were, and how many refused."""
        redriven = refused = 0
        for row in self._database.fetch(RUNNING, {"limit": MOST_RUNNING}):
            if self._stopping():
                break
            done = self._go_on(row.redrive_id)
            redriven, refused = redriven + done[0], refused + done[1]
        return redriven, refused

    def _go_on(self, redrive_id: str) -> tuple[int, int]:
        hold = {"redrive_id": redrive_id, "holder": self._who, "seconds": HELD_SECONDS}
        if not self._database.fetch(HOLD, hold):
            return 0, 0
        found = redrives.get(self._database, redrive_id)
        wanted = _filter_of(found)
        after, counts, looked = Position(found.reached_at or EPOCH, found.reached_id), [0, 0], 0
        while sum(counts) < found.rate and looked < MOST_COUNTED and not self._stopping():
            letters = _next(self._database, wanted, after)
            for letter in letters:
                if sum(counts) >= found.rate or self._stopping():
                    return counts[0], counts[1]
                if _fits(letter, wanted):
                    outcome = self._one(found, letter)
                    if outcome is None:
                        return counts[0], counts[1]
                    counts[0] += outcome
                    counts[1] += not outcome
                after = letter.position
            looked += len(letters)
            if letters and not self._count(found, after):
                break
            if len(letters) < PORTION:
                self._database.fetch(FINISH, {"redrive_id": redrive_id, "holder": self._who})
                break
        return counts[0], counts[1]

    def _one(self, found: Redrive, letter: DeadLetter) -> bool | None:
        """Redrive a letter and count it; returns whether it was redriven, None where the redrive is no longer ours."""
        anew = None if found.to_endpoint is None else Anew(found.to_endpoint)

        def body() -> str:
            queue = redrive(self._creator, letter.letter_id, anew, actor=found.actor)
            if not self._count(found, letter.position, redriven=1):
                raise _NotHeldError
            return queue

        try:
            self._hint(self._database.transact_jointly(body))
        except _NotHeldError:
            return None
        except TaskExecutorError as error:
            if error.status >= 500:
                raise
            return False if self._count(found, letter.position, refused=1, refusal=error.message) else None
        return True

    def _count(
        self, found: Redrive, at: Position, *, redriven: int = 0, refused: int = 0, refusal: str | None = None
    ) -> bool:
        params = {
            "redrive_id": found.redrive_id,
            "holder": self._who,
            "redriven": redriven,
            "refused": refused,
            "refusal": refusal and refusal[:_MOST_REFUSAL],
            "reached_at": at.at,
            "reached_id": at.key,
        }
        return bool(self._database.fetch(COUNT, params))


def _next(database: Database, wanted: LetterFilter, after: Position) -> list[DeadLetter]:
    """Read the next letters of the filter's index, the oldest first, whatever their labels."""
    order = [_D.failed_at, _D.letter_id]
    query = select(*_D).where(_D.resolved_at.is_(None), tuple_(*order) > tuple_(literal(after.at), literal(after.key)))
    if wanted.failed_after is not None:
        query = query.where(_D.failed_at >= wanted.failed_after)
    if wanted.failed_before is not None:
        query = query.where(_D.failed_at < wanted.failed_before)
    if wanted.endpoint is not None:
        query = query.where(_D.endpoint == wanted.endpoint)
    elif wanted.error_type is not None:
        query = query.where(_D.error_type == wanted.error_type)
    return [DeadLetter.from_row(row) for row in database.fetch(query.order_by(*order).limit(PORTION))]


def _fits(letter: DeadLetter, wanted: LetterFilter) -> bool:
    if wanted.error_type not in {None, letter.error_type}:
        return False
    return (wanted.labels or {}).items() <= (letter.labels or {}).items()


def _filter_of(found: Redrive) -> LetterFilter:
    given = dict(found.wanted)
    for name in ("failed_after", "failed_before"):
        if name in given:
            given[name] = datetime.fromisoformat(given[name])
    until = min(given.pop("failed_before", found.created_at), found.created_at)
    return LetterFilter(**given, failed_before=until)
