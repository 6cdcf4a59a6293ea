"""Group: the processes that answer a scrape as one."""

import logging
import threading

from app.kernel.metrics import merging
from app.kernel.metrics.folder import Folder
from app.kernel.metrics.merging import Figures
from app.kernel.metrics.series import BUILD, PROCESSES
from app.kernel.metrics.values import OTHER, Snapshot, Values
from app.kernel.version import version

log = logging.getLogger(__name__)


class Group:
    """What all processes of a group have counted, this one among them; without a folder it is alone.

    Nothing here raises: where the folder fails, a process tells of itself alone.
    """

    def __init__(self, values: Values, folder: Folder | None = None) -> None:
        self._values = values
        self.folder = folder
        self._labels: dict[str, str] = {}  # of endpoints, as all processes of the group have them
        self._has_failed = False
        self._version = version()
        # Whoever publishes, scrapes or gives up: what is newer must not be overwritten by what is older.
        self._publishing = threading.Lock()
        values.read(PROCESSES, lambda: 1.0)

    def publish(self) -> Snapshot:
        """Leave the newest values of this process for the others, and return them."""
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

    def figures(self) -> Figures:
        """Return what all processes have counted; what this one tells it has told the others before."""
        own = self.publish()
        if self.folder is None or self._has_failed:
            return merging.merged([own])
        try:
            return merging.merged(*self.folder.read())
        except OSError as error:
            self._fail(error)
            return merging.merged([own])

    def leave(self) -> None:
        """Leave the last values, and go."""
        if self.folder is not None:
            self.publish()
            self.folder.leave()

    def _labelled(self, snapshot: Snapshot, folder: Folder) -> Snapshot:
        """Give endpoints the labels that they have in all processes; those not decided yet are left out for now."""
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
            log.warning("metrics are those of this process alone, because of its group's folder: %s", error)
        self._has_failed = True
