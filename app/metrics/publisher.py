"""Publisher: the thread that leaves the values of its process for the others of its group, each second."""

import logging

from app.metrics.group import Group
from app.threads import BackgroundThread

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0


class Publisher(BackgroundThread):
    """Publishes until it is stopped, and once more then."""

    def __init__(self, group: Group) -> None:
        super().__init__("te-metrics")
        self._group = group

    def run(self) -> None:
        """Publish each second; what fails is logged, and tried again."""
        while not self.stopping.wait(PUBLISH_SECONDS):
            try:
                self._group.publish()
            except Exception:
                log.exception("te-metrics goes on after an unexpected error")
        self._group.leave()
