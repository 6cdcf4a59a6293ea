"""Queues of a worker process that is not told which to serve: it serves those in which executions wait."""

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from app.db.retry import explained
from app.errors import UnavailableError
from app.executions.claiming.queues import claimable_queues
from app.threads import BackgroundThread
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

SURVEY_SECONDS = 10.0
HINTED_SECONDS = 0.2  # at least between two surveys, however many hints name queues that nobody knows
MOST_QUEUES = 64  # each has a consumer of its own, with a thread


class QueueSurvey(BackgroundThread):
    """Looks for queues that this process does not serve: at its start, now and then, and when a hint names one."""

    def __init__(self, process: WorkerProcess, declare: Callable[[str], object]) -> None:
        super().__init__("te-queues")
        self._process = process
        self._declare = declare
        self._wake = threading.Event()
        self._is_warned = False
        process.on_unknown_queue(self._wake.set)

    def interrupt(self) -> None:
        """Wake the thread."""
        self._wake.set()

    def run(self) -> None:
        """Survey until the thread is stopping; what goes wrong is tried again."""
        while not self.stopping.is_set():
            self._wake.clear()
            try:
                self._survey()
            except (UnavailableError, SQLAlchemyError) as error:
                log.info("cannot look for queues, trying again: %s", explained(error))
            if not self.stopping.wait(HINTED_SECONDS):
                self._wake.wait(SURVEY_SECONDS)

    def _survey(self) -> None:
        process = self._process
        new = [queue for queue in claimable_queues(process.database, MOST_QUEUES) if queue not in process.queues]
        room = MOST_QUEUES - len(process.queues)
        if len(new) > room and not self._is_warned:
            self._is_warned = True
            log.warning(
                "more than %d queues have executions; the others are left to workers that are started for them with -Q",
                MOST_QUEUES,
            )
        for queue in new[:room]:
            # While a worker stops, Dramatiq goes through its consumers.
            if not self.stopping.is_set() and not process.draining.is_set():
                process.serve(queue)
                self._declare(queue)
