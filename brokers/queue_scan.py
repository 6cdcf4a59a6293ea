"""Queues of a worker process without a list of queues: it serves all queues with waiting executions."""

import logging

from dramatiq import Worker
from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.threads import BackgroundThread
from app.queue.claiming.claimable_queues import claimable_of, claimable_queues, named_queues
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType

log = logging.getLogger(__name__)

SURVEY_SECONDS = 10.0
HINTED_SECONDS = 0.2  # minimum between two surveys, also if many wake-ups name unknown queues
MAX_QUEUES = 64  # each has a consumer with a thread
MAX_OF_JOBS = 32  # queues in jobs only; the other places are for queues in endpoints and routes


class QueueScan(BackgroundThread):
    """Finds queues that this process does not serve: at its start, periodically, and after a wake-up for such a queue.

    Wake-ups count only while there is a place for each queue that was found.
    """

    def __init__(
        self,
        process: WorkerProcess,
        worker: Worker,
        *,
        max_queues: int = MAX_QUEUES,
        max_of_jobs: int = MAX_OF_JOBS,
        scan_seconds: float = SURVEY_SECONDS,
        hinted_seconds: float = HINTED_SECONDS,
    ) -> None:
        super().__init__("te-queues")
        self._max_queues, self._max_of_jobs = max_queues, max_of_jobs
        self._scan_seconds, self._hinted_seconds = scan_seconds, hinted_seconds
        self._process = process
        self._worker = worker
        self._wake = process.inboxes.unknown
        self._is_warned = False
        self._is_crowded = False

    def interrupt(self) -> None:
        self._wake.set()

    def run(self) -> None:
        """Survey until the thread is stopping; retry after errors."""
        is_hinted, rest = False, self._hinted_seconds
        while not self.stopping.is_set():
            self._wake.clear()
            served = self._process.queues
            try:
                self._survey()
            except (UnavailableError, SQLAlchemyError) as error:
                log.info("cannot read the queues: %s; retrying", explained(error))
            # Wake-ups may name queues that do not exist, or that are served elsewhere, without end.
            is_vain = is_hinted and self._process.queues == served
            rest = min(2 * rest, self._scan_seconds) if is_vain else self._hinted_seconds
            # If the places are used up, wake-ups for other queues could go on without end.
            wait = self._scan_seconds if self._is_crowded else rest
            if not self.stopping.wait(wait) and not self._is_crowded:
                is_hinted = self._wake.wait(self._scan_seconds)

    def _survey(self) -> None:
        process = self._process
        known = process.queues | process.settings.left_out
        new = [queue for queue in claimable_queues(process.database, self._max_queues) if queue not in known]
        chosen = self._choose(new) if new else set[str]()
        self._is_crowded = not chosen.issuperset(new) or len(process.queues) >= self._max_queues
        if not self._is_warned and not chosen.issuperset(new):
            self._is_warned = True
            log.warning(
                "not serving all queues: more than %d queues have executions, or more than %d are named by jobs only; "
                "start workers for the other queues with -Q",
                self._max_queues,
                self._max_of_jobs,
            )
        for queue in sorted(chosen):
            # A stopping Dramatiq worker iterates over its consumers.
            if not self.stopping.is_set() and not process.draining.is_set() and self._consume(queue):
                process.serve(queue)

    def _choose(self, new: list[str]) -> set[str]:
        """Choose the queues to serve; queues in jobs only take no places from queues in endpoints and routes."""
        database, served = self._process.database, self._process.queues
        named = named_queues(database) - self._process.settings.left_out
        room = self._max_queues - len(served)
        chosen = claimable_of(database, named - served, room)
        of_jobs = self._max_of_jobs - len(served - named - _TRANSPORTS)
        others = [queue for queue in new if queue not in named]
        return {*chosen, *others[: max(0, min(room - len(chosen), of_jobs))]}

    def _consume(self, queue: str) -> bool:
        """Start a consumer of a queue if it has none; return whether one runs."""
        worker = self._worker
        worker.broker.declare_queue(queue)
        consumer = worker.consumers.get(queue)
        if consumer is not None and consumer.is_alive():
            return True
        # Its thread did not start, as Dramatiq has logged. It would neither try again nor stop.
        worker.consumers.pop(queue, None)
        worker.broker.queues.pop(queue, None)
        return False


_TRANSPORTS = {endpoint_type.queue for endpoint_type in EndpointType}
