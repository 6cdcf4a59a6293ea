"""Heartbeat: renews the lease of this process on a thread of its own.

The thread also has its own database connection, so that neither a busy pool nor a slow statement of another thread can
cost the lease.
"""

import logging
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.processes import worker_lease
from app.kernel.threads import STOP_SECONDS, BackgroundThread

log = logging.getLogger(__name__)


class Heartbeat(BackgroundThread):
    """Renews the worker's lease every third of its length and reports its loss."""

    is_vital = True

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        lease_seconds: float,
        in_flight: Callable[[], int],
        on_lost: Callable[[str], None],
    ) -> None:
        super().__init__("te-heartbeat")
        self._database = database
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._in_flight = in_flight
        self._on_lost = on_lost
        self._valid_until = 0.0

    def granted(self, asked_at: float) -> None:
        """Note that the database gave the lease; it counts from when it was asked for, by `time.monotonic()`."""
        self._valid_until = asked_at + self._lease_seconds

    def is_valid(self) -> bool:
        """Return whether the lease certainly still holds; may turn false early, since the database decides."""
        return time.monotonic() < self._valid_until

    def last_sign(self) -> float:
        """Return when the lease was last renewed, by `time.monotonic()`."""
        return self._valid_until - self._lease_seconds

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """End the thread and write the last heartbeat, DEAD."""
        ended = super().stop(timeout_seconds)
        try:
            worker_lease.leave(self._database, self._worker_id)
        except (UnavailableError, SQLAlchemyError) as error:
            log.warning("the last heartbeat was not written: %s", explained(error))
        return ended

    def run(self) -> None:
        """Renew the lease until it is lost or the thread is stopping."""
        interval = self._lease_seconds / 3
        while not self.stopping.wait(interval):
            sent_at = time.monotonic()
            try:
                renewed = worker_lease.renew(
                    self._database,
                    worker_id=self._worker_id,
                    in_flight=self._in_flight(),
                    lease_ms=int(self._lease_seconds * 1000),
                )
            except (UnavailableError, SQLAlchemyError) as error:
                # Whatever the database says, only the end of the lease ends this thread.
                if not self.is_valid():
                    return self._on_lost(f"no heartbeat could be written for {self._lease_seconds:.0f} s")
                interval = min(1.0, self._lease_seconds / 10)
                log.warning("heartbeat failed, trying again: %s", explained(error))
                continue
            if not renewed:
                return self._on_lost("the database says the lease is over")
            self.granted(sent_at)
            interval = self._lease_seconds / 3
        return None
