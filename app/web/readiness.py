"""Readiness of a web process, for `/health/ready`."""

import logging
import math
import threading
import time

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.db.startup import check_ready
from app.kernel.errors import TaskExecutorError, UnavailableError
from app.kernel.function_types import Clock

log = logging.getLogger(__name__)

GOOD_FOR_SECONDS = 1.0


class Readiness:
    """Cached check of the database, at most once a second; only the log gives the reason of a failure.

    While one thread checks, other threads wait for at most a second: anonymous requests must not hold the threads of a
    process whose database hangs.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = time.monotonic,
        *,
        patience_seconds: float = GOOD_FOR_SECONDS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._is_ready = False
        self._good_until = -math.inf

    def check(self) -> None:
        """Raise UnavailableError unless the database can be reached and has the required schema."""
        if not self._is_ready_now():
            raise UnavailableError("This process is not ready; see its log for the reason.")

    def _is_ready_now(self) -> bool:
        if not self._lock.acquire(timeout=self._patience_seconds):
            return False
        try:
            if self._good_until <= self._clock():
                self._is_ready = self._query()
                self._good_until = self._clock() + GOOD_FOR_SECONDS
            return self._is_ready
        finally:
            self._lock.release()

    def _query(self) -> bool:
        try:
            check_ready(self._database)
        except (TaskExecutorError, SQLAlchemyError) as error:
            reason = error.explained if isinstance(error, TaskExecutorError) else explained(error)
            log.warning("not ready: %s; answering 503", reason)
            return False
        return True
