"""Delivery loop: the event loop of a worker process, where deliveries wait without holding threads."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from actors.dispatch import Dispatchers
from app.threads import BackgroundThread

log = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
SIGN_SECONDS = 0.2

Task = Callable[[Dispatchers], Coroutine[Any, Any, None]]


class DeliveryLoop(BackgroundThread):
    """Runs deliveries on a uvloop in a thread of its own and owns the dispatchers, which live on that loop."""

    is_vital = True

    def __init__(self, open_dispatchers: Callable[[], Dispatchers]) -> None:
        super().__init__("te-delivery")
        self._open_dispatchers = open_dispatchers
        self._lock = threading.Lock()
        self._inbox: list[Task] = []
        self._running: set[asyncio.Task[None]] = set()
        self._loop = uvloop.new_event_loop()
        self._opened = threading.Event()
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()

    def start(self) -> None:
        """Start the loop; `submit` works as soon as this returns."""
        super().start()
        self._opened.wait()

    def submit(self, task: Task) -> None:
        """Start a delivery; callable from any thread."""
        with self._lock:
            self._inbox.append(task)
            first = len(self._inbox) == 1
        # One wake-up of the loop serves everything that is in the inbox by then.
        if first:
            self._loop.call_soon_threadsafe(self._take)

    def drain(self) -> None:
        """Let no delivery wait for a turn at its target any more; callable from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._drain.set)

    def interrupt(self) -> None:
        """Let the loop cancel what still runs, and close the dispatchers."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def run(self) -> None:
        """Run the loop until it is interrupted."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._opened.set()
            self._loop.close()

    async def _main(self) -> None:
        self._dispatchers = self._open_dispatchers()
        self._opened.set()
        own = [self._loop.create_task(task) for task in (self._sweep(), self._show_signs(), self._drained())]
        await self._stop.wait()
        for task in (*own, *self._running):
            task.cancel()
        await asyncio.gather(*own, *self._running, return_exceptions=True)
        await self._dispatchers.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._dispatchers.sweep()

    async def _show_signs(self) -> None:
        while True:
            self.show_sign()
            await asyncio.sleep(SIGN_SECONDS)

    async def _drained(self) -> None:
        await self._drain.wait()
        self._dispatchers.drain()

    def _take(self) -> None:
        with self._lock:
            waiting, self._inbox = self._inbox, []
        for start in waiting:
            task = self._loop.create_task(start(self._dispatchers))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
