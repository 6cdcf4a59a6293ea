"""The process around the chores: when each runs, and how it all ends."""

import contextlib
import logging
import queue
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import FrameType

from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from app.scheduler.chore import Chore, Outage, run_logged

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Every:
    """A chore and how often it runs, in seconds; the first time at once."""

    seconds: float
    chore: Chore


class SchedulerProcess:
    """Runs chores until a signal, or until the thread that triggers them dies."""

    def __init__(self) -> None:
        self._stopping = False
        # The only queue that a signal handler may put into: its put() can interrupt itself.
        self._over: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._triggering = threading.Event()

    def catch_signals(self) -> None:
        """Let TERM and INT stop the process in order instead of killing it."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def is_stopping(self) -> bool:
        """Tell chores to end between two statements."""
        return self._stopping

    def run(self, plan: Sequence[Every]) -> int:
        """Run the chores; returns the exit status once all of them have ended."""
        triggers = _triggers(plan)
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

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._over.put(0)

    def _trigger(self, triggers: BlockingScheduler) -> None:
        try:
            triggers.start()  # returns after shutdown()
        except BaseException:
            log.exception("the thread that triggers the chores died")
        finally:
            # Without a signal before it, this is the end that nobody asked for.
            self._over.put(1)
            self._triggering.set()


def _triggers(plan: Sequence[Every]) -> BlockingScheduler:
    # It warns of each run that is skipped because the last one still goes on: every time while the database hangs.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    triggers = BlockingScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(len(plan))},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
    outage, now = Outage(), datetime.now(UTC)
    for every in plan:
        run, trigger = partial(run_logged, every.chore, outage), IntervalTrigger(seconds=every.seconds, timezone=UTC)
        triggers.add_job(run, trigger, name=every.chore.name, next_run_time=now)
    return triggers
