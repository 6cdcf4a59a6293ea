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

from actors.dispatch import Dispatchers
from actors.dispatch.base import NO_HISTORY, History
from actors.sending import deliver, fail
from app.catalog.loader import Prepared
from app.kernel.function_types import Call, Run
from app.kernel.threads import BackgroundThread
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import DeliveryError
from brokers.attempt import Attempt
from brokers.flow_state import FlowState

SWEEP_SECONDS = 60.0
HEARTBEAT_SECONDS = 0.2


class Alarm(BackgroundThread):
    """Calls `ring` once at the most recently set instant, on a thread of its own.

    Timers of the event loop count in whole milliseconds and would start deliveries almost 1 ms late on average.
    """

    is_vital = True

    def __init__(self, ring: Call) -> None:
        super().__init__("te-alarm")
        self._ring = ring
        self._at = math.inf

    def set(self, at: float) -> None:
        """Ring at an instant of `time.monotonic()` instead of the previous one; from any thread."""
        with self._changed:
            self._at = at
            self._changed.notify()

    def run(self) -> None:
        while not self.stopping.is_set():
            with self._changed:
                left = self._at - time.monotonic()
                if left > 0:
                    self._changed.wait(None if left == math.inf else left)
                    continue
                self._at = math.inf
            self._ring()


class Delivery(NamedTuple):
    """An attempt that is prepared for its instant, or the error of its preparation."""

    attempt: Attempt
    prepared: Prepared | DeliveryError
    history: History = NO_HISTORY


class DeliveryLoop(BackgroundThread):
    """Runs deliveries on a uvloop in a thread of its own and owns the dispatchers, which live on that loop.

    Deliveries wait for their instants; when the worker stops, waiting deliveries are released.
    """

    is_vital = True

    def __init__(self, open_dispatchers: Run[Dispatchers]) -> None:
        super().__init__("te-delivery")
        self._open_dispatchers = open_dispatchers
        self._waiting: list[tuple[float, int, Delivery]] = []  # a heap, by the instant of the start
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
        """Start deliveries, each at its instant; from any thread."""
        self._loop.call_soon_threadsafe(self._start_due, deliveries)  # one wake-up for all of them

    def drain(self) -> None:
        """Release deliveries that wait for their instant or for a turn at their target; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._drain.set)

    def abort(self, claims: Collection[tuple[str, int, datetime]]) -> None:
        """Abort the deliveries of these claims, given as in `ClaimKey`; from any thread.

        Waiting deliveries are released, which ends their executions because an abort was requested. Deliveries that
        have not arrived or not begun are unaffected: repeat the call while the request stands.
        """
        if claims:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._abort, frozenset(claims))

    def abort_requested(self, state: FlowState) -> None:
        """Abort the deliveries of all executions that the state names."""
        self.abort(state.aborts)

    def interrupt(self) -> None:
        """Let the loop cancel running deliveries and close the dispatchers."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def run(self) -> None:
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
        own = [self._loop.create_task(task) for task in (self._sweep(), self._give_heartbeats(), self._drained())]
        await self._stop.wait()
        running = dict(self._running)
        for task in (*own, *running):
            task.cancel()
        await asyncio.gather(*own, *running, return_exceptions=True)
        for attempt in running.values():
            attempt.release(defer_ms=DUE_NOW_MS)  # of a task that was cancelled before its first step
        await self._dispatchers.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._dispatchers.sweep()

    async def _give_heartbeats(self) -> None:
        while True:
            self.give_heartbeat()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _drained(self) -> None:
        await self._drain.wait()
        self._dispatchers.drain()
        self._release_waiting()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._start_due)

    def _start_due(self, deliveries: Iterable[Delivery] = ()) -> None:
        now = time.monotonic()
        for delivery in deliveries:
            heapq.heappush(self._waiting, (delivery.attempt.due_at, next(self._order), delivery))
        while self._waiting and self._waiting[0][0] <= now:
            attempt, prepared, history = heapq.heappop(self._waiting)[2]
            if isinstance(prepared, DeliveryError):
                run = fail(attempt, prepared)
            else:
                run = deliver(self._dispatchers, attempt, prepared, history)
            task = self._loop.create_task(run)
            self._running[task] = attempt
            task.add_done_callback(self._running.pop)
        if self._drain.is_set():
            self._release_waiting()
        elif self._waiting and not now < self._rings_at <= self._waiting[0][0]:
            self._rings_at = self._waiting[0][0]
            self._alarm.set(self._rings_at)

    def _abort(self, claims: Collection[tuple[str, int, datetime]]) -> None:
        for *_, delivery in self._waiting:
            if delivery.attempt.claim.key in claims:
                delivery.attempt.release()
        for task, attempt in self._running.items():
            # A task cannot handle a cancellation before its first step: such deliveries wait for the next call.
            if attempt.claim.key in claims and attempt.abort():
                task.cancel()

    def _release_waiting(self) -> None:
        for *_, delivery in self._waiting:
            delivery.attempt.release(defer_ms=DUE_NOW_MS)
        self._waiting.clear()
