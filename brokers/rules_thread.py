"""Flow: the thread of a worker process that asks twice a second what has changed."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.threads import BackgroundThread
from app.queue.claiming.endpoint_rules import FlowRules, Pulse, pulse
from brokers.inbox import Inboxes

log = logging.getLogger(__name__)

PULSE_SECONDS = 0.5
Listen = Callable[[Pulse], None]


class FlowThread(BackgroundThread):
    """Keeps the rules new, and passes each pulse on.

    Polling is the contract here as well: a change is in force within a second, whoever missed a hint and however long
    an idle worker waits between two polls.
    """

    def __init__(self, database: Database, worker_id: str, rules: FlowRules, inboxes: Inboxes) -> None:
        super().__init__("te-flow")
        self._database = database
        self._worker_id = worker_id
        self._rules = rules
        self._inboxes = inboxes
        self._listeners: list[Listen] = []
        self.hurry = threading.Event()  # set by any thread: ask at once
        self._is_away = False

    def on_pulse(self, listen: Listen) -> None:
        """Pass each pulse to `listen`, on this thread; what the database refuses it may let out. Before the start.

        The process adds what writes, and may wait for a lock: what others add later is told first.
        """
        self._listeners.append(listen)

    def interrupt(self) -> None:
        """Wake the thread."""
        self.hurry.set()

    def run(self) -> None:
        """Ask until the thread is stopping; what goes wrong is tried again half a second later."""
        while not self.stopping.is_set():
            try:
                self._beat()
                self._is_away = False
            except (UnavailableError, SQLAlchemyError) as error:
                if not self._is_away:
                    log.warning("cannot ask for rules, trying again: %s", explained(error))
                self._is_away = True
            except Exception:
                log.exception("te-flow goes on after an unexpected error")
            self.hurry.wait(PULSE_SECONDS)
            self.hurry.clear()

    def _beat(self) -> None:
        found = pulse(self._database, self._worker_id)
        if self._rules.refresh(found.revision) or self._rules.correct(found.revision):
            self._inboxes.wake()
        with ExitStack() as all_of_them:  # the last one first, also after one that raised
            for listen in self._listeners:
                all_of_them.callback(listen, found)
