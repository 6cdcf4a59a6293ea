"""Publisher: thread that shares this process's metrics with its group each second."""

import logging
import time

from app.kernel.metrics.group import Group
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
MAX_SHARE = 0.02  # of the process's CPU time; with thousands of endpoints it publishes less often


class Publisher(BackgroundThread):
    """Publishes until it is stopped, and once more at its end."""

    def __init__(self, group: Group) -> None:
        super().__init__("te-metrics")
        self._group = group

    def run(self) -> None:
        """Publish each second; log a failure and retry."""
        wait = PUBLISH_SECONDS
        while not self.stopping.wait(wait):
            began = time.thread_time()
            try:
                self._group.publish()
            except Exception:
                log.exception("could not publish metrics; retrying")
            wait = max(PUBLISH_SECONDS, (time.thread_time() - began) / MAX_SHARE)
        self._group.leave()
