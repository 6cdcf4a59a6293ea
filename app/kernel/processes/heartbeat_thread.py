"""Heartbeat thread: writes the heartbeats of its process and refreshes its regions, on pooled connections."""

import logging
from functools import partial
from itertools import count

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Call, Run
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import HEARTBEAT_SECONDS, Component
from app.kernel.processes.region import RegionStatus
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

BEATS_PER_REFRESH = 2
SOON_SECONDS = 0.1
LEAVE_SECONDS = 2.0
_BEAT = "write the heartbeat"
_COMMANDS = "read or acknowledge commands"


class HealthThread(BackgroundThread):
    """Writes a heartbeat every five seconds and reads the regions every ten.

    No other work waits for this thread: a hanging heartbeat must not delay the renewal of a worker's lease.
    """

    def __init__(
        self,
        database: Database,
        component: Component,
        status: RegionStatus | None = None,
        *,
        carry: Run[bool] | None = None,
        beat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """`carry` handles commands at each heartbeat; if it returns true, the next heartbeat follows at once."""
        super().__init__("te-health")
        self._carry = carry
        self._beat_seconds = beat_seconds
        self._database = database
        self._component = component
        self.status = status or RegionStatus(database)
        self._failing = set[str]()

    def run(self) -> None:
        """Write heartbeats until the process ends, then mark it as ended."""
        for number in count():
            self._try(_BEAT, partial(process_heartbeat.beat, self._database, self._component))
            if number % BEATS_PER_REFRESH == 0:
                self._try("read the regions", self.status.refresh)
            has_news = self._carry is not None and self._try(_COMMANDS, self._carry)
            if self.stopping.wait(SOON_SECONDS if has_news else self._beat_seconds):
                break
        if self._carry is not None:
            self._try(_COMMANDS, self._carry)
        self._try(_BEAT, partial(process_heartbeat.leave, self._database, self._component))

    def stop(self, timeout_seconds: float = LEAVE_SECONDS) -> bool:
        """End the thread; a hanging database delays the process for at most the timeout."""
        return super().stop(timeout_seconds)

    def _try(self, action: str, act: Call) -> bool:
        """Return the truth of the result; after an error of the database log `action` once and return false."""
        try:
            result = act()
        except (UnavailableError, SQLAlchemyError) as error:
            if action not in self._failing:
                log.warning("could not %s: %s; retrying", action, explained(error))
            self._failing.add(action)
            return False
        self._failing.discard(action)
        return bool(result)
