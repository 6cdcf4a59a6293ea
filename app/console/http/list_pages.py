"""Pages of lists: the rows behind the cursor of an address, and the addresses of the older and the newest rows.

A list is bound to its filters by `shown_page`, or has the position of its last row in the address (`position_after`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from app.console.http.forms import query, refuse
from app.console.http.page_rendering import here
from app.kernel.db.paging import Position, ReadPage
from app.kernel.formats import EPOCH, MICROSECOND
from app.web.http.pagination import page_answer, page_request

T = TypeVar("T")
MAX_SHOWN = 50
MAX_CURSOR = 500
AFTER, UNTIL = "after", "until"  # the position of a page, and the instant of a pinned list
MAX_DIGITS = 17  # of microseconds


@dataclass(frozen=True, slots=True)
class ShownPage(Generic[T]):
    """Rows of a list; an address is empty if there are no such rows."""

    items: Sequence[T]
    older: str
    newest: str


def shown_page(read: ReadPage[T], filters: Mapping[str, Any], limit: int = MAX_SHOWN) -> ShownPage[T]:
    """Read the page of the address; its cursor is bound to the filters."""
    cursor = query().text("cursor", longest=MAX_CURSOR)
    wanted = page_request({"limit": limit, **({"cursor": cursor} if cursor else {}), **filters})
    found = page_answer(read(wanted), filters)
    older = here(cursor=found["cursor"]) if found["cursor"] else ""
    return ShownPage(found["items"], older, here(cursor="") if cursor else "")


def position_after(name: str = AFTER) -> Position | None:
    """Return the position of the address, behind which the page begins; raises InvalidRequestError."""
    text = query().text(name)
    if not text:
        return None
    at, _, key = text.partition("-")
    if not (at.isascii() and at.isdigit() and len(at) <= MAX_DIGITS):
        refuse(name, "Open this page from the page before.")
    return Position(EPOCH + timedelta(microseconds=int(at)), key)


def address_behind(position: Position | None, name: str = AFTER) -> str:
    """Return the address of the rows behind a position; empty for the end of the list."""
    if position is None:
        return ""
    return here(**{name: f"{(position.at - EPOCH) // MICROSECOND}-{position.key}", UNTIL: ""})
