"""Delivery loop: the event loop of a worker process, where deliveries wait without holding threads."""

import asyncio
import contextlib
import heapq
import itertools
import math
import threading
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

import uvloop

from actors.alarm import Alarm
from actors.dispatch import Dispatchers
from actors.dispatch.base import NO_HISTORY, History
from actors.sending import deliver, fail
from app.catalog.loader import Prepared
from app.kernel.function_types import Run
from app.kernel.threads import BackgroundThread
from app.queue.claiming.endpoint_rules import Pulse
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import DeliveryError
from brokers.attempt import Attempt

SWEEP_SECONDS = 60.0
SIGN_SECONDS = 0.2


class Delivery(NamedTuple):
    """An attempt that an actor has taken up, prepared to be sent at its instant, or its failure."""

    attempt: Attempt
    prepared: Prepared | DeliveryError
    history: History = NO_HISTORY


class DeliveryLoop(BackgroundThread):
    """Runs deliveries on a uvloop in a thread of its own and owns the dispatchers, which live on that loop.

    Each is held to its instant; those that still wait for it when the worker stops are handed back.
    """

    is_vital = True

    def __init__(self, open_dispatchers: Run[Dispatchers]) -> None:
        super().__init__("te-delivery")
        self._open_dispatchers = open_dispatchers
        self._held: list[tuple[float, int, Delivery]] = []  # a heap, by the instant to start at
        self._order = itertools.count()
        self._alarm = Alarm(self._wake)
        self._rings_at = -math.inf
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._loop = uvloop.new_event_loop()
        self._opened = threading.Event()
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()

    def start(self) -> None:
        """Start the loop; `submit` works as soon as this returns."""
        super().start()
        self._opened.wait()
        self._alarm.start()

    def submit(self, deliveries: Iterable[Delivery]) -> None:
        """Start deliveries, each at its instant; callable from any thread."""
        self._loop.call_soon_threadsafe(self._start_due, deliveries)  # one wake-up for all of them

    def drain(self) -> None:
        """Let no delivery wait for its instant or for a turn at its target any more; callable from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._drain.set)

    def abort(self, claims: Collection[tuple[str, int, datetime]]) -> None:
        """Break off the deliveries of these claims, as `ClaimKey` has them; callable from any thread.

        What is held is handed back, which ends what was asked to end. What has not come here yet, or is about to begin,
        is left alone: call it again as long as the request stands.
        """
        if claims:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._abort, frozenset(claims))

    def take_pulse(self, pulse: Pulse) -> None:
        """Break off what te-flow was asked to abort."""
        self.abort(pulse.aborts)

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
            self._alarm.stop()
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
        self._hand_back()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._start_due)

    def _start_due(self, deliveries: Iterable[Delivery] = ()) -> None:
        now = time.monotonic()
        for delivery in deliveries:
            heapq.heappush(self._held, (delivery.attempt.due_at, next(self._order), delivery))
        while self._held and self._held[0][0] <= now:
            attempt, prepared, history = heapq.heappop(self._held)[2]
            if isinstance(prepared, DeliveryError):
                run = fail(attempt, prepared)
            else:
                run = deliver(self._dispatchers, attempt, prepared, history)
            task = self._loop.create_task(run)
            self._running[task] = attempt
            task.add_done_callback(self._running.pop)
        if self._drain.is_set():
            self._hand_back()
        elif self._held and not now < self._rings_at <= self._held[0][0]:
            self._rings_at = self._held[0][0]
            self._alarm.set(self._rings_at)

    def _abort(self, claims: Collection[tuple[str, int, datetime]]) -> None:
        for *_, delivery in self._held:
            if delivery.attempt.claim.key in claims:
                delivery.attempt.release()
        for task, attempt in self._running.items():
            # A task that is cancelled before its first step would never see it: what has not begun waits for the next.
            if attempt.claim.key in claims and attempt.abort():
                task.cancel()

    def _hand_back(self) -> None:
        for *_, delivery in self._held:
            delivery.attempt.release(put_off_ms=DUE_NOW_MS)
        self._held.clear()
