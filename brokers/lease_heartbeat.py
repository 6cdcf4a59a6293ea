"""Heartbeat: renews the lease of this process; the watchdog ends the process when a vital thread hangs.

The heartbeat has a database connection of its own, so that neither a busy pool nor a slow statement costs the lease.
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
"""Ends the process, with a reason."""


@dataclass(slots=True)
class Lease:
    """The lease of a worker process, as the process knows it."""

    seconds: float
    valid_until: float = 0.0
    """On `time.monotonic()`. Until then the lease certainly holds; it may hold for longer."""


class Heartbeat(BackgroundThread):
    """Renews the lease `renewals` times in its length, and reports its loss."""

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
        """Extend the lease from the instant at which it was requested, on `time.monotonic()`."""
        if not self.stopping.is_set():
            self._lease.valid_until = asked_at + self._lease.seconds

    def last_heartbeat(self) -> float:
        """Return when the lease was last renewed, on `time.monotonic()`."""
        return self._lease.valid_until - self._lease.seconds

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """End the thread and the lease, then write the last heartbeat, DEAD: from then on other workers may claim."""
        ended = super().stop(timeout_seconds)
        self._lease.valid_until = 0.0
        try:
            worker_lease.leave(self._database, self._worker_id)
        except (UnavailableError, SQLAlchemyError) as error:
            log.warning("could not write the last heartbeat: %s", explained(error))
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
                # No error of the database ends this thread, only the end of the lease.
                if time.monotonic() >= self._lease.valid_until:
                    return self._on_lost(f"no heartbeat could be written for {seconds:.0f} s")
                interval = min(1.0, self._interval * 0.3)
                log.warning("could not write the heartbeat: %s; retrying", explained(error))
                continue
            if not renewed:
                return self._on_lost("the database says the lease is over")
            self.granted(sent_at)
            interval = self._interval
        return None


class Watchdog(BackgroundThread):
    """Compares the last heartbeats of other threads with the clock, on a thread that waits for nothing else."""

    is_vital = True

    def __init__(self, longest_seconds: float, give_up: GiveUp) -> None:
        super().__init__("te-watchdog")
        self._longest = longest_seconds
        self._give_up = give_up
        self._watched: dict[str, BackgroundThread] = {}

    def watch(self, name: str, thread: BackgroundThread) -> None:
        """Watch a thread; before `start`."""
        self._watched[name] = thread

    def run(self) -> None:
        """Give up when a thread is silent for too long."""
        while not self.stopping.wait(self._longest / 8):
            now = time.monotonic()
            for name, thread in self._watched.items():
                silence = now - thread.last_heartbeat()
                if silence > self._longest:
                    return self._give_up(f"its {name} stood still for {silence:.1f} s")
        return None
