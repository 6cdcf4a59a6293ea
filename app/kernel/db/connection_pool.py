"""Pool of connections that closes the connections which a process no longer needs."""

import logging
import math
from typing import Any

from sqlalchemy import QueuePool

IDLE_SECONDS = 60.0
# SQLAlchemy names the logger of a pool by its class, so it would have the level of our own lines.
logging.getLogger(f"{__name__}.ShrinkingPool").setLevel(logging.WARNING)
TAKEN_AT = "taken_at"  # key of a connection's info: the time of its last checkout, on time.monotonic()


class ShrinkingPool(QueuePool):
    """Pool that closes idle connections; it must lend the connection used last (`pool_use_lifo`)."""

    def close_idle(self, before: float) -> None:
        """Close the connections that were last taken before an instant, except the one taken last."""
        free: Any = self._pool
        while True:
            with free.mutex:
                # The least recently used is first.
                if len(free.queue) <= 1 or free.queue[0].info.get(TAKEN_AT, -math.inf) >= before:
                    return
                entry = free.queue.popleft()
            try:
                entry.close()
            finally:
                self._dec_overflow()  # as for each connection that leaves the pool
