"""Delivery loop: the event loop of a worker process, where deliveries wait without holding threads."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

import uvloop

from actors.dispatch import Dispatchers
from app.threads import BackgroundThread
from brokers.attempt import Attempt

SWEEP_SECONDS = 60.0
SIGN_SECONDS = 0.2


class Delivery(NamedTuple):
    """An attempt that an actor has taken up, and what is to run at its instant."""

    attempt: Attempt
    run: Callable[[Dispatchers], Coroutine[Any, Any, None]]


class DeliveryLoop(BackgroundThread):
    """Runs deliveries on a uvloop in a thread of its own and owns the dispatchers, which live on that loop.

    Each is held to its instant; those that still wait for it when the worker stops are handed back.
    """

    is_vital = True

    def __init__(self, open_dispatchers: Callable[[], Dispatchers]) -> None:
        super().__init__("te-delivery")
        self._open_dispatchers = open_dispatchers
        self._held: dict[Attempt, asyncio.TimerHandle] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._loop = uvloop.new_event_loop()
        self._opened = threading.Event()
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()

    def start(self) -> None:
        """Start the loop; `submit` works as soon as this returns."""
        super().start()
        self._opened.wait()

    def submit(self, deliveries: Iterable[Delivery]) -> None:
        """Start deliveries, each at its instant; callable from any thread."""
        self._loop.call_soon_threadsafe(self._start_when_due, deliveries)  # one wake-up for all of them

    def drain(self) -> None:
        """Let no delivery wait for its instant or for a turn at its target any more; callable from any thread."""
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
        for attempt, timer in self._held.items():
            timer.cancel()
            attempt.release()
        self._held.clear()

    def _start_when_due(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            attempt = delivery.attempt
            early = attempt.due_at - time.monotonic()
            if early <= 0:
                self._held.pop(attempt, None)
                task = self._loop.create_task(delivery.run(self._dispatchers))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            elif self._drain.is_set():
                attempt.release()
            else:
                # The loop counts in milliseconds, and rounds. What is left of the last one is waited for by itself.
                wait = max(1, int(early * 1000)) / 1000
                self._held[attempt] = self._loop.call_later(wait, self._start_when_due, [delivery])
