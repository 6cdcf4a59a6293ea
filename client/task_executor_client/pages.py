"""Lists of the service, read page by page."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

from .call import Call
from .failures import UnexpectedAnswerError
from .groups import AsyncSender, Sender

T = TypeVar("T")


class Page(list[T], Generic[T]):
    """List with the items of one page. A page with a cursor may be empty.

    Attributes:
        cursor: Position of the next page, for the argument `cursor` of the operation; None on the last page.
    """

    cursor: str | None = None


class Pages(Generic[T]):
    """List of the service, fetched page by page during iteration. Each iteration reads it again.

    Operations such as `te.jobs.list` return it. Iterations on several threads do not affect each other.

    Args:
        sender: Client that sends the calls.
        call: Call for the first page.

    Example:
        for job in te.jobs.list(endpoint="mail"):
            print(job["job_id"])
    """

    def __init__(self, sender: Sender, call: Call) -> None:
        self._sender = sender
        self._call = call

    def __iter__(self) -> Iterator[T]:
        """Yield the items of all pages; errors as in `pages`."""
        for page in self.pages():
            yield from page

    def pages(self) -> Iterator[Page[T]]:
        """Yield the pages with their cursors; a page is requested when the iteration reaches it.

        Yields:
            The next page, of at most `limit` items.

        Raises:
            TaskExecutorError: Errors of the operation; see its method.
            UnexpectedAnswerError: The answer is not a page, or its cursor points to the same page.

        Example:
            page = next(te.jobs.list(limit=100).pages())
            following = te.jobs.list(limit=100, cursor=page.cursor)  # if page.cursor is not None
        """
        call: Call | None = self._call
        while call is not None:
            page: Page[T] = _page(self._sender.request(call))
            yield page
            call = _next(call, page.cursor)

    def first(self) -> T | None:
        """Return the first item, or None if the list is empty; errors as in `pages`."""
        return next(iter(self), None)


class AsyncPages(Generic[T]):
    """List of the service for `async for`, fetched page by page. Each iteration reads it again.

    Operations such as `te.jobs.list` of an AsyncClient return it, without `await`.

    Args:
        sender: Client that sends the calls.
        call: Call for the first page.

    Example:
        async for job in te.jobs.list(endpoint="mail"):
            print(job["job_id"])
    """

    def __init__(self, sender: AsyncSender, call: Call) -> None:
        self._sender = sender
        self._call = call

    async def __aiter__(self) -> AsyncIterator[T]:
        """Yield the items of all pages; errors as in `pages`."""
        async for page in self.pages():
            for item in page:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Yield the pages with their cursors; a page is requested when the iteration reaches it.

        Yields:
            The next page, of at most `limit` items.

        Raises:
            TaskExecutorError: Errors of the operation; see its method.
            UnexpectedAnswerError: The answer is not a page, or its cursor points to the same page.

        Example:
            async for page in te.jobs.list(limit=100).pages():
                print(len(page), page.cursor)
        """
        call: Call | None = self._call
        while call is not None:
            page: Page[T] = _page(await self._sender.request(call))
            yield page
            call = _next(call, page.cursor)

    async def first(self) -> T | None:
        """Return the first item, or None if the list is empty; errors as in `pages`."""
        async for item in self:
            return item
        return None


def _page(answer: Any) -> Page[Any]:
    try:
        page = Page[Any](answer["items"])
        page.cursor = answer["cursor"]
    except (TypeError, KeyError):
        raise UnexpectedAnswerError("the answer is not a page of a list") from None
    return page


def _next(call: Call, cursor: str | None) -> Call | None:
    if cursor is None:
        return None
    following = call.at(cursor)
    if following == call:
        raise UnexpectedAnswerError(f"{call.operation}: the cursor of a page points to the same page")
    return following
