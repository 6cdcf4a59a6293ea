"""Pages of lists: the rows behind the cursor of an address, and the addresses of the older and the newest rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from app.console.http.forms import query
from app.console.http.page_rendering import here
from app.kernel.db.paging import ReadPage
from app.web.http.pagination import page_answer, page_request

T = TypeVar("T")
MAX_SHOWN = 50
MAX_CURSOR = 500


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
