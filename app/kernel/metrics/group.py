"""Group: processes with a common parent that answer a scrape together."""

import logging
import threading

from app.kernel.metrics import merging
from app.kernel.metrics.folder import Folder
from app.kernel.metrics.merging import MergedMetrics
from app.kernel.metrics.series import BUILD, PROCESSES
from app.kernel.metrics.values import OTHER, Snapshot, Values
from app.kernel.version import version

log = logging.getLogger(__name__)


def _one() -> float:
    return 1.0


class Group:
    """Merged metrics of all processes of a group, or of this process alone without a folder.

    Methods never raise: while the folder fails, the metrics are those of this process alone.
    """

    def __init__(self, values: Values, folder: Folder | None = None) -> None:
        self._values = values
        self.folder = folder
        self._labels: dict[str, str] = {}  # of endpoints, the same in all processes of the group
        self._has_failed = False
        self._version = version()
        # Keeps an older snapshot from overwriting a newer one.
        self._publishing = threading.Lock()
        values.read(PROCESSES, _one)

    def publish(self) -> Snapshot:
        """Write this process's snapshot to the folder, and return it."""
        with self._publishing:
            self._values.set(BUILD, 1.0, self._version)
            return self._published(self._values.snapshot())

    def _published(self, snapshot: Snapshot) -> Snapshot:
        if self.folder is None:
            return snapshot
        try:
            self.folder.stay()
            snapshot = self._labelled(snapshot, self.folder)
            self.folder.write(snapshot)
        except OSError as error:
            self._fail(error)
        else:
            self._has_failed = False
        return snapshot

    def merged_metrics(self) -> MergedMetrics:
        """Return the merged metrics of all processes; this process publishes its own first."""
        own = self.publish()
        if self.folder is None or self._has_failed:
            return merging.merged([own])
        try:
            return merging.merged(*self.folder.read())
        except OSError as error:
            self._fail(error)
            return merging.merged([own])

    def leave(self) -> None:
        """Publish a last snapshot and leave the folder."""
        if self.folder is not None:
            self.publish()
            self.folder.leave()

    def _labelled(self, snapshot: Snapshot, folder: Folder) -> Snapshot:
        """Give endpoints the labels that they have in all processes; leave out endpoints without a decided label."""
        news = merging.endpoints_in(snapshot) - self._labels.keys()
        if news and (decided := folder.admitted(news - {OTHER}, self._values.endpoints.most)) is not None:
            have, is_full = decided
            for name in news:
                if name in have or name == OTHER:
                    self._labels[name] = name
                elif is_full:
                    self._labels[name] = OTHER
        return merging.relabelled(snapshot, self._labels.get)

    def _fail(self, error: OSError) -> None:
        if not self._has_failed:
            log.warning("could not share metrics with other processes: %s; serving this process's metrics alone", error)
        self._has_failed = True
