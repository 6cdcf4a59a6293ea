"""Scheduler process: runs the chores of a plan, each when it is due, and shuts down cleanly."""

import contextlib
import logging
import queue
import signal
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from types import FrameType

from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from app.kernel.errors import UnavailableError
from app.kernel.metrics import PROCESS, series
from app.scheduler.chore import Chore, Counts, counting
from app.scheduler.chore_heartbeats import Signs
from app.scheduler.outage_log import OutageLog

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
_FAILING = frozenset({"expired", "failed"})  # what chores call executions that they have failed


class StuckError(RuntimeError):
    """A chore, or what starts them, stands still; the message says which."""


class SchedulerProcess:
    """Runs chores until a signal, or until the thread that triggers them dies or one of them stands still."""

    def __init__(self) -> None:
        self._stopping = False
        self._signs = Signs()
        # SimpleQueue is the only queue that a signal handler may put into: its put() may interrupt itself.
        self._over: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._triggering = threading.Event()

    def catch_signals(self) -> None:
        """Let TERM and INT stop the process cleanly instead of killing it."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def is_stopping(self) -> bool:
        """Return whether chores shall end between two statements; that they ask is their sign of life."""
        self._signs.show()
        return self._stopping

    def run(self, plan: Sequence[Chore]) -> int:
        """Run the chores; returns the exit status once all of them have ended.

        Raises StuckError, with threads still running, when one of them does not go on: the process has to be ended.
        """
        triggers = _triggers(plan, self._signs)
        triggers.add_listener(lambda _event: self._triggering.set(), EVENT_SCHEDULER_STARTED)
        thread = threading.Thread(target=self._trigger, args=[triggers], name="te-scheduler")
        thread.start()
        log.info("scheduler started")
        status = self._wait()
        self._stopping = True
        self._triggering.wait()
        if triggers.running:
            triggers.shutdown(wait=True)
        thread.join()
        log.info("scheduler stopped")
        return status

    def _wait(self) -> int:
        """Wait for the end.

        Not in one sleep: Python's handlers run in this thread only, and what comes in the instant before it falls
        asleep does not wake it.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._over.get(timeout=LOOK_SECONDS)
            if (stuck := self._signs.look()) is not None:
                raise StuckError(stuck)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._over.put(0)

    def _trigger(self, triggers: BlockingScheduler) -> None:
        try:
            triggers.start()  # returns after shutdown()
        except BaseException:
            log.exception("the thread that triggers the chores died")
        finally:
            # The status of an end that no signal asked for; after a signal its 0 is read first.
            self._over.put(1)
            self._triggering.set()


def _triggers(plan: Sequence[Chore], signs: Signs) -> BlockingScheduler:
    # APScheduler warns of each run that it skips because the last one goes on: of every run while the database hangs.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    triggers = BlockingScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(len(plan))},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
    outages, now = OutageLog(), datetime.now(UTC)
    for chore in plan:
        trigger = IntervalTrigger(seconds=chore.every_seconds, timezone=UTC)
        triggers.add_job(partial(_run, chore, outages, signs), trigger, name=chore.name, next_run_time=now)
    return triggers


def _run(chore: Chore, outages: OutageLog, signs: Signs) -> None:
    with signs.running(chore.name):
        run_logged(chore, outages)


def run_logged(chore: Chore, outages: OutageLog) -> None:
    """Run a chore once and log what it did; never raises, so that no chore can stop the others."""
    since, began, so_far = outages.count(), time.monotonic(), Counts()
    try:
        with counting(partial(_note_success, chore)) as so_far:
            counts = chore.run()
    except UnavailableError as error:
        _count_failure(chore, so_far)
        outages.begins(chore.name, error.explained, since=since)
    except Exception:
        _count_failure(chore, so_far)
        log.exception("%s failed", chore.name)
    else:
        outages.is_over(chore.name, since=since)
        PROCESS.add(series.CHORE_FAILURES, chore.name, amount=0)
        PROCESS.observe(series.CHORE_SECONDS, time.monotonic() - began, chore.name)
        _note_success(chore)
        _tell(chore, counts)


def _note_success(chore: Chore) -> None:
    PROCESS.set(series.CHORE_AT, time.time(), chore.name)


def _count_failure(chore: Chore, so_far: Counts) -> None:
    PROCESS.add(series.CHORE_FAILURES, chore.name)
    _tell(chore, so_far)


def _tell(chore: Chore, counts: Counts) -> None:
    for name, count in counts.items():
        # Also where it is 0: a rate needs to have seen that before the first one.
        PROCESS.add(series.CHORE_ROWS, chore.name, name, amount=count)
        if name in _FAILING:
            PROCESS.add(series.FAILED, chore.name, amount=count)
    done = [f"{count} {name}" for name, count in counts.items() if count]
    if done:
        log.info("%s: %s", chore.name, ", ".join(done))
