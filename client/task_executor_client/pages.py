"""Lists: iterate over them and the pages are read as they are needed."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

from .call import Call
from .failures import UnexpectedAnswerError
from .groups import AsyncSender, Sender

T = TypeVar("T")


class Page(list[T], Generic[T]):
    """The items of a page; `cursor` is where the next one begins, None on the last."""

    cursor: str | None = None


class Pages(Generic[T]):
    """A list of the service. It can be iterated over again, which reads it again."""

    def __init__(self, sender: Sender, call: Call) -> None:
        self._sender = sender
        self._call = call

    def __iter__(self) -> Iterator[T]:
        """Yield the items of all pages. A page may have none: it is not the last while it has a cursor."""
        for page in self.pages():
            yield from page

    def pages(self) -> Iterator[Page[T]]:
        """Yield the pages, for who keeps their cursors."""
        call: Call | None = self._call
        while call is not None:
            page: Page[T] = _page(self._sender.send(call))
            yield page
            call = _next(call, page.cursor)

    def first(self) -> T | None:
        """Return the first item, if there is one."""
        return next(iter(self), None)


class AsyncPages(Generic[T]):
    """A list of the service, read without blocking. It can be iterated over again, which reads it again."""

    def __init__(self, sender: AsyncSender, call: Call) -> None:
        self._sender = sender
        self._call = call

    async def __aiter__(self) -> AsyncIterator[T]:
        """Yield the items of all pages. A page may have none: it is not the last while it has a cursor."""
        async for page in self.pages():
            for item in page:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Yield the pages, for who keeps their cursors."""
        call: Call | None = self._call
        while call is not None:
            page: Page[T] = _page(await self._sender.send(call))
            yield page
            call = _next(call, page.cursor)

    async def first(self) -> T | None:
        """Return the first item, if there is one."""
        async for item in self:
            return item
        return None


def _page(answer: Any) -> Page[Any]:
    try:
        page = Page[Any](answer["items"])
        page.cursor = answer["cursor"]
    except (TypeError, KeyError):
        raise UnexpectedAnswerError("the answer is no page of a list") from None
    return page


def _next(call: Call, cursor: str | None) -> Call | None:
    if cursor is None:
        return None
    following = call.at(cursor)
    if following == call:
        raise UnexpectedAnswerError(f"{call.operation}: a page leads to itself")
    return following
