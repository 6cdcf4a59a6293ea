"""Waits for the end of executions: one thread of a process asks for all that are waited for, in one statement."""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import TaskExecutorError
from app.kernel.sql import statement
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.01
LONGEST_SECONDS = 0.5
OF_AGE = 4  # a wait is looked at again after this part of the time that it has lasted
TOGETHER_SECONDS = 0.01
TROUBLE_SECONDS = 1.0
MOST_IDS = 500

# What is not there any more is over, too. For COALESCE see CLAIM.
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
    over: Callable[[], object]
    look_at: float


class Waits(BackgroundThread):
    """Tells who waits for an execution that it is over, or that the wait has lasted long enough.

    An end sends no hint: it would cost each delivery, and hardly any is waited for. So they are looked at, the younger
    the wait the more often: an end is noticed late by a quarter of the time that was waited, 0.5 s at most.
    """

    def __init__(self, database: Database) -> None:
        super().__init__("te-waits")
        self._database = database
        self._waits: dict[_Wait, None] = {}
        self._changed = threading.Condition()

    def begin(self, execution_id: str, seconds: float, over: Callable[[], object]) -> Callable[[], object]:
        """Begin a wait, whose end calls `over` on the thread; returns what gives it up. Neither may wait."""
        now = time.monotonic()
        wait = _Wait(execution_id, now, now + seconds, over, now + min(FIRST_SECONDS, seconds))
        with self._changed:
            self.ensure_started()
            self._waits[wait] = None
            self._changed.notify()
        return partial(self._forget, wait)

    def wait(self, execution_id: str, seconds: float) -> None:
        """Wait on this thread."""
        over = threading.Event()
        give_up = self.begin(execution_id, seconds, over.set)
        over.wait(seconds)
        give_up()

    def interrupt(self) -> None:
        """Wake the thread."""
        with self._changed:
            self._changed.notify()

    def run(self) -> None:
        """Look at the waits whose turn it is."""
        while not self.stopping.is_set():
            due = self._due()
            open_ = self._open({wait.execution_id for wait in due}) if due else ()
            now = time.monotonic()
            for wait in due:
                if now >= wait.until or wait.execution_id not in open_:
                    if self._forget(wait):
                        wait.over()
                else:
                    wait.look_at = min(wait.until, now + rest_seconds(now - wait.since))

    def _due(self) -> list[_Wait]:
        with self._changed:
            first = min((wait.look_at for wait in self._waits), default=math.inf)
            rest = min(first - time.monotonic(), threading.TIMEOUT_MAX)
            if rest > 0:
                self._changed.wait(rest)
            until = time.monotonic() + TOGETHER_SECONDS
            return [wait for wait in self._waits if wait.look_at <= until]

    def _open(self, execution_ids: Collection[str]) -> Collection[str]:
        """Return those of them that are not over; all of them, a while later, where the database does not say."""
        ordered = sorted(execution_ids)
        try:
            pages = [ordered[start : start + MOST_IDS] for start in range(0, len(ordered), MOST_IDS)]
            return {row.execution_id for page in pages for row in self._database.fetch(OPEN, {"ids": page})}
        except Exception as error:  # noqa: BLE001 - a table may be missing while one restores it, and the waits end still
            level = logging.DEBUG if isinstance(error, TaskExecutorError) else logging.ERROR
            log.log(level, "executions that are waited for cannot be read: %s", explained(error))
            self.stopping.wait(TROUBLE_SECONDS)
            return execution_ids

    def _forget(self, wait: _Wait) -> bool:
        with self._changed, contextlib.suppress(KeyError):
            del self._waits[wait]
            return True
        return False


def rest_seconds(age: float) -> float:
    """Return for how long a wait of that age is left alone."""
    return min(max(age / OF_AGE, FIRST_SECONDS), LONGEST_SECONDS)
