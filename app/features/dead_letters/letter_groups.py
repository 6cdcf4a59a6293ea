"""Groups of dead letters: thousands of failures are a few faults.

The newest letters are read, up to a bound of rows and of time. Letters of the filter are grouped by endpoint, error,
status of the answer and form of the message.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.dead_letters.letter_list import LetterFilter, rows_of_letters
from app.features.dead_letters.message_form import form_of, group_id, status_of
from app.kernel.db import Database
from app.kernel.db.chunked_scan import ChunkedRead
from app.kernel.db.paging import PageRequest, Position
from app.queue.ending.letters import LetterFault
from schema import tables

MAX_LOOKED_AT = 10_000
MAX_GROUPS = 200
EXAMPLES = 3
SECONDS = 0.25
STRIDE = 5_000  # letters of a read

Fault = tuple[str, str, int | None, str]  # endpoint, error, status and form of the message
_COLUMNS = [tables.dead_letters.c[each.name] for each in fields(LetterFault)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters with the same fault; `message` is its form, `example` the message of `last`, the newest letter."""

    group: str
    endpoint: str
    error_type: str
    status_code: int | None
    message: str
    example: str | None
    count: int
    first_failed_at: datetime
    last_failed_at: datetime
    endpoint_versions: Sequence[int]
    letters: Sequence[str]
    last: LetterFault


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroups:
    """The groups with the most letters.

    Attributes:
        looked_at: Number of grouped letters.
        read: Number of the newest letters that were read, matching or not; there may be fewer.
        next: Position behind which other letters of the filter may be; None if all were read.
    """

    items: Sequence[LetterGroup]
    looked_at: int
    read: int
    next: Position | None

    @property
    def is_complete(self) -> bool:
        return self.next is None


def groups_of(
    database: Database,
    wanted: LetterFilter,
    *,
    after: Position | None = None,
    most: int = MAX_LOOKED_AT,
    seconds: float = SECONDS,
) -> LetterGroups:
    """Group the letters of a filter among the `most` newest behind a position."""
    until, read, seen = time.monotonic() + seconds, 0, dict[Fault, list[Row[Any]]]()
    while True:
        size = min(STRIDE, most - read)
        # The letter behind the last one shows whether any is left.
        chunk = ChunkedRead(size=size + 1, chunks=1)
        page = rows_of_letters(database, wanted, PageRequest(size, after), chunk, _COLUMNS)
        for each in page.items:
            key = (each.endpoint, each.error_type, status_of(each.message), form_of(each.message))
            seen.setdefault(key, []).append(each)
        after, read = page.next, read + size
        if after is None or read >= most or time.monotonic() >= until:
            break
    groups = sorted((_group(*key[2:], of) for key, of in seen.items()), key=_order)
    looked_at = sum(each.count for each in groups)
    return LetterGroups(items=groups[:MAX_GROUPS], looked_at=looked_at, read=read, next=after)


def _order(group: LetterGroup) -> tuple[int, str, str]:
    """Return what places the largest group first."""
    return -group.count, group.endpoint, group.group


def _group(status: int | None, form: str, letters: Sequence[Row[Any]]) -> LetterGroup:
    newest, oldest = letters[0], letters[-1]
    return LetterGroup(
        group=group_id(newest.endpoint, newest.error_type, newest.message),
        endpoint=newest.endpoint,
        error_type=newest.error_type,
        status_code=status,
        message=form,
        example=newest.message,
        count=len(letters),
        first_failed_at=oldest.failed_at,
        last_failed_at=newest.failed_at,
        endpoint_versions=sorted({each.endpoint_version for each in letters}),
        letters=[each.letter_id for each in letters[:EXAMPLES]],
        last=LetterFault.from_row(newest),
    )
