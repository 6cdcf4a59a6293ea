"""Pauses of a queue of the run, again and again."""

import random
from datetime import datetime

from app.dev.verify import stored
from app.dev.verify.evidence import Span
from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.threads import BackgroundThread

_MAX_PAUSE_SECONDS, _MAX_BETWEEN_SECONDS = 3.0, 4.0
_RETRY_SECONDS = 0.2


class QueuePauses(BackgroundThread):
    """Thread that pauses and resumes the queue of one endpoint; the queue is not paused afterwards."""

    def __init__(self, client: LoadClient, endpoints: VerifyEndpoints, database: Database, *, seed: int) -> None:
        super().__init__("te-verify-queue-pauses")
        self._client = client
        self._queue = endpoints.queue
        self._database = database
        self._dice = random.Random(f"{seed}-queue")
        self.spans: list[Span] = []
        """Times of the database between the answer to a pause and the request to resume."""

    def run(self) -> None:
        while not self.stopping.wait(self._dice.uniform(0.0, _MAX_BETWEEN_SECONDS)):
            since = self._now() if self._ask("pause") else None
            self.stopping.wait(self._dice.uniform(0.0, _MAX_PAUSE_SECONDS))
            until = self._now()
            self._ask("resume")
            if since is not None and until is not None:
                self.spans.append(Span(since, until))

    def _ask(self, verb: str) -> bool:
        return self._client.ask(f"/queues/{self._queue}/{verb}") is not None

    def _now(self) -> datetime | None:
        """Read the database's clock; None if the run stops before."""
        while not self._client.stopping.is_set():
            try:
                return stored.now(self._database)
            except UnavailableError:
                self._client.stopping.wait(_RETRY_SECONDS)
        return None
