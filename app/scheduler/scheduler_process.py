"""Scheduler process: runs the chores of a plan, each when it is due, and shuts down cleanly."""

import contextlib
import logging
import queue
import signal
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import FrameType

from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from app.scheduler.chore import Chore
from app.scheduler.chore_runner import PATIENCE_POLLS, ChoreRunner

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
APART = timedelta(milliseconds=25)


class StuckError(RuntimeError):
    """A chore or the thread that starts chores has stalled; the message names it."""


class SchedulerProcess:
    """Runs chores until a signal, until the thread that starts them dies, or until a chore stalls."""

    def __init__(self, *, patience: int = PATIENCE_POLLS, poll_seconds: float = POLL_SECONDS) -> None:
        self._stopping = False
        self._poll_seconds = poll_seconds
        self._runner = ChoreRunner(patience)
        # A signal handler may only put into a SimpleQueue: its put() may interrupt itself.
        self._exit_status: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._triggering = threading.Event()

    def catch_signals(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def is_stopping(self) -> bool:
        """Return whether chores shall end between two statements; the call is a heartbeat of the calling chore."""
        self._runner.heartbeat()
        return self._stopping

    def run(self, plan: Sequence[Chore]) -> int:
        """Run the chores; return the exit status after all chores have ended.

        Raises StuckError if a chore stalls. Threads still run then, so the caller must end the process.
        """
        triggers = self._triggers(plan)
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
        """Wait for the exit status in short intervals, because a signal just before a wait does not end the wait.

        Python runs signal handlers on the main thread only.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._exit_status.get(timeout=self._poll_seconds)
            if (stalled := self._runner.poll()) is not None:
                raise StuckError(stalled)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._exit_status.put(0)

    def _triggers(self, plan: Sequence[Chore]) -> BlockingScheduler:
        # APScheduler warns about each run that it skips while the last run continues: about every run of an outage.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        triggers = BlockingScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(len(plan))},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        now = datetime.now(UTC)
        for chore, first in first_runs(plan, now):
            trigger = IntervalTrigger(seconds=chore.every_seconds, timezone=UTC)
            triggers.add_job(self._runner.run, trigger, args=[chore], name=chore.name, next_run_time=first)
        return triggers

    def _trigger(self, triggers: BlockingScheduler) -> None:
        try:
            triggers.start()  # returns after shutdown()
        except BaseException:
            log.exception("the thread that starts the chores died; the scheduler exits")
        finally:
            # Status of an end without a signal; the 0 of a signal is read first.
            self._exit_status.put(1)
            self._triggering.set()


def first_runs(plan: Sequence[Chore], now: datetime) -> Iterator[tuple[Chore, datetime]]:
    """Yield the instant of the first run of each chore.

    Their later runs keep these distances, so that few chores need a connection at once.
    """
    for number, chore in enumerate(plan):
        yield chore, now + number * APART
