"""The thread that beats for its process and keeps its regions up to date, on connections that there are anyway."""

import logging
from functools import partial
from itertools import count

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Call, Run
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import BEAT_SECONDS, Component
from app.kernel.processes.region import RegionStatus
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

BEATS_PER_REFRESH = 2
SOON_SECONDS = 0.1
LEAVE_SECONDS = 2.0
_BEAT = "no heartbeat for others to see"
_CARRY = "no commands can be asked for"


class HealthThread(BackgroundThread):
    """Beats every five seconds and reads the regions every ten; nothing else of the process waits for it.

    Above all not the renewal of a worker's lease, which a beat that hangs would cost.
    """

    def __init__(
        self,
        database: Database,
        component: Component,
        status: RegionStatus | None = None,
        *,
        carry: Run[bool] | None = None,
    ) -> None:
        """`carry` is called with each beat; the next one comes at once where it says that it has something to tell."""
        super().__init__("te-health")
        self._carry = carry
        self._database = database
        self._component = component
        self.status = status or RegionStatus(database)
        self._failing = set[str]()

    def run(self) -> None:
        """Beat until the process ends, and say then that it has ended."""
        for number in count():
            self._try(_BEAT, partial(process_heartbeat.beat, self._database, self._component))
            if number % BEATS_PER_REFRESH == 0:
                self._try("cannot read the regions", self.status.refresh)
            has_news = self._carry is not None and self._try(_CARRY, self._carry)
            if self.stopping.wait(SOON_SECONDS if has_news else BEAT_SECONDS):
                break
        if self._carry is not None:
            self._try(_CARRY, self._carry)
        self._try(_BEAT, partial(process_heartbeat.leave, self._database, self._component))

    def stop(self, timeout_seconds: float = LEAVE_SECONDS) -> bool:
        """End the thread; a database that hangs holds nobody up for longer than the timeout."""
        return super().stop(timeout_seconds)

    def _try(self, failure: str, act: Call) -> bool:
        """Return what it says; False where the database refuses it, which is told once."""
        try:
            said = act()
        except (UnavailableError, SQLAlchemyError) as error:
            if failure not in self._failing:
                log.warning("%s: %s", failure, explained(error))
            self._failing.add(failure)
            return False
        self._failing.discard(failure)
        return bool(said)
