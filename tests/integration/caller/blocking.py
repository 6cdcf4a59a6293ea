"""Synchronous wrapper of the asynchronous client, so that both clients pass the same tests."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from task_executor_client import AsyncClient, AsyncPages


class Blocking:
    """An AsyncClient, or a part of it, whose coroutines and iterators run to completion in each call."""

    def __init__(self, part: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._part = part
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return Blocking(found, self._loop)
        return lambda *args, **kwargs: self._run(found(*args, **kwargs))

    def _run(self, value: Any) -> Any:
        if isinstance(value, AsyncPages):
            return BlockingPages(value, self._loop)
        return self._loop.run_until_complete(value) if inspect.isawaitable(value) else value

    def __repr__(self) -> str:
        return repr(self._part)


class BlockingPages:
    def __init__(self, pages: AsyncPages[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._pages = pages
        self._loop = loop

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loop.run_until_complete(_collect(aiter(self._pages))))

    def pages(self) -> Iterator[Any]:
        return iter(self._loop.run_until_complete(_collect(self._pages.pages())))

    def first(self) -> Any:
        return self._loop.run_until_complete(self._pages.first())


async def _collect(each: Any) -> list[Any]:
    return [item async for item in each]


@contextmanager
def blocking(address: str, key: str, **options: Any) -> Iterator[Any]:
    """Run an AsyncClient on an event loop of its own."""
    own = AsyncClient(address, key, **options)
    loop = asyncio.new_event_loop()
    client = Blocking(own, loop)
    yield client
    client.close()
    loop.close()
