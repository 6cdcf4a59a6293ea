"""The thread that beats for its process and keeps its regions up to date, on connections that there are anyway."""

import logging
from collections.abc import Callable
from functools import partial
from itertools import count

from sqlalchemy.exc import SQLAlchemyError

from app.db import Database
from app.db.retry import explained
from app.errors import UnavailableError
from app.health import heartbeat
from app.health.heartbeat import BEAT_SECONDS, Component
from app.health.region import RegionStatus
from app.threads import BackgroundThread

log = logging.getLogger(__name__)

BEATS_PER_REFRESH = 2
LEAVE_SECONDS = 2.0


class HealthThread(BackgroundThread):
    """Beats every five seconds and reads the regions every ten; nothing else of the process waits for it.

    Above all not the renewal of a worker's lease, which a beat that hangs would cost.
    """

    def __init__(self, database: Database, component: Component, status: RegionStatus | None = None) -> None:
        super().__init__("te-health")
        self._database = database
        self._component = component
        self.status = status or RegionStatus(database)
        self._is_failing = False

    def run(self) -> None:
        """Beat until the process ends, and say then that it has ended."""
        for number in count():
            self._try(partial(heartbeat.beat, self._database, self._component))
            if number % BEATS_PER_REFRESH == 0:
                self._try(self.status.refresh)
            if self.stopping.wait(BEAT_SECONDS):
                break
        self._try(partial(heartbeat.leave, self._database, self._component))

    def stop(self, timeout_seconds: float = LEAVE_SECONDS) -> bool:
        """End the thread; a database that hangs holds nobody up for longer than the timeout."""
        return super().stop(timeout_seconds)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (UnavailableError, SQLAlchemyError) as error:
            if not self._is_failing:
                log.warning("no heartbeat for others to see: %s", explained(error))
            self._is_failing = True
        else:
            self._is_failing = False
