"""Waits for the end of executions: one thread per process polls all awaited executions with one statement."""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import TaskExecutorError
from app.kernel.function_types import Call
from app.kernel.sql import statement
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.01
MAX_INTERVAL_SECONDS = 0.5
AGE_DIVISOR = 4  # the interval between polls is the age of the wait divided by this
TOGETHER_SECONDS = 0.01
RETRY_SECONDS = 1.0
MAX_IDS = 500
MAX_BLOCKED_SECONDS = 2.0  # a blocked thread answers no other request

# A deleted execution has ended too. COALESCE: see CLAIM.
OPEN = statement(
    "executions.open_among",
    """
    SELECT execution_id FROM executions
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND COALESCE(completed_at IS NULL, false)
    """,
)


@dataclass(slots=True, eq=False)
class _Wait:
    execution_id: str
    since: float
    until: float
    over: Call
    poll_at: float


class Waits(BackgroundThread):
    """Thread that polls awaited executions and ends each wait when its execution ends or its time is over.

    An execution's end sends no wake-up, since that would cost every delivery, and few are awaited. The polling interval
    grows with the age of a wait: the delay is at most a quarter of the time waited, and at most 0.5 s.
    """

    def __init__(self, database: Database) -> None:
        super().__init__("te-waits")
        self._database = database
        self.max_blocked_seconds = MAX_BLOCKED_SECONDS
        self._waits: dict[_Wait, None] = {}

    def begin(self, execution_id: str, seconds: float, over: Call) -> Call:
        """Begin a wait, which ends with a call of `over`; return a function that cancels it. Neither may block."""
        now = time.monotonic()
        wait = _Wait(execution_id, now, now + seconds, over, now + min(FIRST_SECONDS, seconds))
        with self._changed:
            self.ensure_started()
            self._waits[wait] = None
            self._changed.notify()
        return partial(self._forget, wait)

    def wait(self, execution_id: str, seconds: float) -> None:
        """Block this thread until an execution has ended, for at most `max_blocked_seconds`."""
        seconds, over = min(seconds, self.max_blocked_seconds), threading.Event()
        give_up = self.begin(execution_id, seconds, over.set)
        over.wait(seconds)
        give_up()

    def run(self) -> None:
        while not self.stopping.is_set():
            due = self._due()
            open_ = self._open({wait.execution_id for wait in due}) if due else ()
            now = time.monotonic()
            for wait in due:
                if now >= wait.until or wait.execution_id not in open_:
                    if self._forget(wait):
                        wait.over()
                else:
                    wait.poll_at = min(wait.until, now + poll_interval(now - wait.since))

    def _due(self) -> list[_Wait]:
        with self._changed:
            first = min((wait.poll_at for wait in self._waits), default=math.inf)
            rest = min(first - time.monotonic(), threading.TIMEOUT_MAX)
            if rest > 0:
                self._changed.wait(rest)
            until = time.monotonic() + TOGETHER_SECONDS
            return [wait for wait in self._waits if wait.poll_at <= until]

    def _open(self, execution_ids: Collection[str]) -> Collection[str]:
        """Return the open executions among some; all of them, after RETRY_SECONDS, if the database fails."""
        ordered = sorted(execution_ids)
        try:
            pages = [ordered[start : start + MAX_IDS] for start in range(0, len(ordered), MAX_IDS)]
            return {row.execution_id for page in pages for row in self._database.fetch(OPEN, {"ids": page})}
        except Exception as error:  # noqa: BLE001 - a table may be missing during a restore, and waits must still end
            level = logging.DEBUG if isinstance(error, TaskExecutorError) else logging.ERROR
            log.log(level, "could not read awaited executions: %s; retrying in %s s", explained(error), RETRY_SECONDS)
            self.stopping.wait(RETRY_SECONDS)
            return execution_ids

    def _forget(self, wait: _Wait) -> bool:
        with self._changed, contextlib.suppress(KeyError):
            del self._waits[wait]
            return True
        return False


def poll_interval(age: float) -> float:
    return min(max(age / AGE_DIVISOR, FIRST_SECONDS), MAX_INTERVAL_SECONDS)
