"""Heartbeat: renews the lease of this process on a thread of its own.

The thread also has its own database connection, so that neither a busy pool nor a slow statement of another thread can
cost the lease.
"""

import logging
import time
from collections.abc import Callable, Sized
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.processes import worker_lease
from app.kernel.threads import STOP_SECONDS, BackgroundThread

log = logging.getLogger(__name__)


GiveUp = Callable[[str], None]
"""Ends the process, for a reason."""


@dataclass(slots=True)
class Lease:
    """The lease of a worker process, as far as the process can tell."""

    seconds: float
    valid_until: float = 0.0
    """On `time.monotonic()`. Until then the lease certainly holds; the database may let it hold for longer."""


class Heartbeat(BackgroundThread):
    """Renews the worker's lease `renewals` times in its length, and reports its loss."""

    is_vital = True

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        lease: Lease,
        in_flight: Sized,
        on_lost: GiveUp,
        renewals: int = 3,
    ) -> None:
        super().__init__("te-heartbeat")
        self._database = database
        self._worker_id = worker_id
        self._lease = lease
        self._in_flight = in_flight
        self._on_lost = on_lost
        self._interval = lease.seconds / renewals

    def granted(self, asked_at: float) -> None:
        """Note that the database gave the lease; it counts from when it was asked for, by `time.monotonic()`."""
        self._lease.valid_until = asked_at + self._lease.seconds

    def last_sign(self) -> float:
        """Return when the lease was last renewed, by `time.monotonic()`."""
        return self._lease.valid_until - self._lease.seconds

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
        seconds = self._lease.seconds
        interval = self._interval
        while not self.stopping.wait(interval):
            sent_at = time.monotonic()
            try:
                renewed = worker_lease.renew(
                    self._database,
                    worker_id=self._worker_id,
                    in_flight=len(self._in_flight),
                    lease_ms=int(seconds * 1000),
                )
            except (UnavailableError, SQLAlchemyError) as error:
                # Whatever the database says, only the end of the lease ends this thread.
                if time.monotonic() >= self._lease.valid_until:
                    return self._on_lost(f"no heartbeat could be written for {seconds:.0f} s")
                interval = min(1.0, self._interval * 0.3)
                log.warning("heartbeat failed, trying again: %s", explained(error))
                continue
            if not renewed:
                return self._on_lost("the database says the lease is over")
            self.granted(sent_at)
            interval = self._interval
        return None
