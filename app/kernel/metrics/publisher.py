"""Publisher: the thread that leaves the values of its process for the others of its group, each second."""

import logging
import time

from app.kernel.metrics.group import Group
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
MOST_SHARE = 0.02  # of the process's time: with thousands of endpoints it publishes less often


class Publisher(BackgroundThread):
    """Publishes until it is stopped, and once more then."""

    def __init__(self, group: Group) -> None:
        super().__init__("te-metrics")
        self._group = group

    def run(self) -> None:
        """Publish each second; what fails is logged, and tried again."""
        wait = PUBLISH_SECONDS
        while not self.stopping.wait(wait):
            began = time.thread_time()
            try:
                self._group.publish()
            except Exception:
                log.exception("te-metrics goes on after an unexpected error")
            wait = max(PUBLISH_SECONDS, (time.thread_time() - began) / MOST_SHARE)
        self._group.leave()
