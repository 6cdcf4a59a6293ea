"""The walk of a redrive: the open letters of its filter, the oldest first.

What failed after the beginning is left alone: it ends, and what fails again is not tried for ever.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, true

from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrive import redrive_as_new_jobs
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.kernel.db import Database, chunked_scan
from app.kernel.db.paging import Part, Position
from app.queue.bulk.walker import AT_ONCE, Place
from app.queue.ending.dead_letter import DeadLetter
from app.queue.executions.manual_retry import redrive_executions
from app.queue.executions.several import Treated
from app.queue.jobs.job_creation import Creator
from schema import tables

NEW_JOBS_AT_ONCE = 50  # whose inputs may be large

_D = tables.dead_letters.c


class RedriveWalk:
    """How redrives are walked."""

    walks = REDRIVES

    def __init__(self, creator: Creator) -> None:
        self._creator = creator

    def filter_of(self, walk: Redrive) -> LetterFilter:
        """Return its filter, without what failed later."""
        given = dict(walk.wanted)
        for name in ("failed_after", "failed_before"):
            if name in given:
                given[name] = datetime.fromisoformat(given[name])
        until = min(given.pop("failed_before", walk.created_at), walk.created_at)
        return LetterFilter(**given, failed_before=until)

    def next(self, database: Database, wanted: LetterFilter, after: Position, limit: int) -> list[Place[DeadLetter]]:
        """Read the next open letters of the filter's index."""
        return next_letters(database, wanted, after, limit)

    def at_once(self, walk: Redrive) -> int:
        """Return how many letters a transaction may redrive."""
        return AT_ONCE if walk.to_endpoint is None else NEW_JOBS_AT_ONCE

    def see_to(self, walk: Redrive, items: Sequence[DeadLetter]) -> Treated:
        """Redrive letters."""
        if walk.to_endpoint is None:
            return self._creator.database.transact(
                lambda connection: redrive_executions(connection, items, actor=walk.actor)
            )
        return redrive_as_new_jobs(self._creator, items, walk.to_endpoint, actor=walk.actor)


def next_letters(database: Database, wanted: LetterFilter, after: Position, limit: int) -> list[Place[DeadLetter]]:
    """Read the next letters of the filter's index, the oldest first, and tell which of them it wants."""
    is_wanted = and_(true(), *wanted.conditions()).label("is_wanted")
    part = wanted.part(None)
    query = wanted.index().read_up(Part(max(after, part.end), part.start), *_D, is_wanted).limit(limit)
    rows = chunked_scan.in_order(database, query)
    letters = [(DeadLetter.from_row(row), row.is_wanted) for row in rows]
    return [Place(letter.position, letter if is_wanted else None) for letter, is_wanted in letters]
