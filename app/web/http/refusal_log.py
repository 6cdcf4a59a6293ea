"""Log of refused requests, rate-limited so that an attacker cannot fill the disk."""

import logging
import math
import re
import threading
import time

from app.kernel.errors import TaskExecutorError
from app.kernel.function_types import Clock

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60.0
LINES_PER_WINDOW = 30  # per status, so that a flood of one status does not hide another
_KEY_ID = re.compile(r"te_([0-9A-Za-z]{1,32})_")


class RefusalLog:
    """Log of refusals at INFO, up to LINES_PER_WINDOW a minute and status, with the number of omitted lines."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[int, tuple[float, int]] = {}  # by status: the end, and the number of refusals
        self._lock = threading.Lock()

    def note(self, error: TaskExecutorError, presented: str, address: str, request_id: str) -> None:
        """Log a refusal, with the id of the presented key but not its secret."""
        left_out = self._admit(error.status)
        if left_out is None:
            return
        key = _KEY_ID.match(presented)
        before = f"; {left_out} more were not logged before" if left_out else ""
        log.info(
            "request %s refused: %d %s, key %s, from %s%s",
            request_id,
            error.status,
            error.code,
            key[1] if key else "unknown",
            address,
            before,
        )

    def _admit(self, status: int) -> int | None:
        """Return the number of lines omitted before this line; None to omit this line."""
        with self._lock:
            now, left_out = self._clock(), 0
            ends_at, refused = self._windows.get(status, (-math.inf, 0))
            if ends_at <= now:
                left_out, ends_at, refused = max(0, refused - LINES_PER_WINDOW), now + WINDOW_SECONDS, 0
            self._windows[status] = ends_at, refused + 1
            return left_out if refused < LINES_PER_WINDOW else None
