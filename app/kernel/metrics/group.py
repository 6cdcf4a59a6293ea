"""Group: processes with a common parent that answer a scrape together."""

import logging
import threading
import time

from app.kernel.metrics import PROCESS, merging
from app.kernel.metrics.folder import Folder, folder_of
from app.kernel.metrics.merging import MergedMetrics
from app.kernel.metrics.scrape_server import MetricsServer
from app.kernel.metrics.series import BUILD, PROCESSES
from app.kernel.metrics.values import OTHER, Snapshot, Values
from app.kernel.threads import BackgroundThread
from app.kernel.version import version

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
MAX_PUBLISH_SHARE = 0.02  # of the process's CPU time; with thousands of endpoints it publishes less often
FRESH_SECONDS = 0.5
MAX_RENDER_SHARE = 0.2  # of the process's CPU time, under a flood of scrapes


class Group:
    """Merged metrics of all processes of a group, or of this process alone without a folder.

    Methods never raise: while the folder fails, only the metrics of this process are served.
    """

    def __init__(self, values: Values, folder: Folder | None = None) -> None:
        self._values = values
        self.folder = folder
        self._labels = {OTHER: OTHER}  # of endpoints, the same in all processes of the group
        self._has_failed = False
        self._version = version()
        # Keeps an older snapshot from overwriting a newer snapshot.
        self._publishing = threading.Lock()
        self._rendering = threading.Lock()
        self._text = b""
        self._fresh_until = 0.0

    def publish(self) -> Snapshot:
        """Write this process's snapshot to the folder, and return it."""
        with self._publishing:
            self._values.set(PROCESSES, 1.0)
            self._values.set(BUILD, 1.0, self._version)
            snapshot = self._values.snapshot()
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

    def text(self) -> bytes:
        """Return the answer to a scrape, at most FRESH_SECONDS old unless rendering is slow."""
        with self._rendering:
            if time.monotonic() >= self._fresh_until:
                from app.kernel.metrics.rendering import rendered  # noqa: PLC0415 - loads prometheus_client

                began = time.thread_time()
                self._text = rendered(self.merged_metrics())
                took = time.thread_time() - began
                self._fresh_until = time.monotonic() + max(FRESH_SECONDS, took / MAX_RENDER_SHARE)
            return self._text

    def leave(self) -> None:
        """Publish a last snapshot and leave the folder."""
        if self.folder is not None:
            self.publish()
            self.folder.leave()

    def _labelled(self, snapshot: Snapshot, folder: Folder) -> Snapshot:
        """Give endpoints the labels that they have in all processes; leave out endpoints without a decided label."""
        news = merging.endpoints_in(snapshot) - self._labels.keys()
        if news and (decided := folder.admitted(news, self._values.endpoints.most)) is not None:
            have, is_full = decided
            self._labels |= {name: name if name in have else OTHER for name in news if name in have or is_full}
        return merging.relabelled(snapshot, self._labels)

    def _fail(self, error: OSError) -> None:
        if not self._has_failed:
            log.warning(
                "could not share metrics with other processes: %s; serving the metrics of this process alone", error
            )
        self._has_failed = True


class Publisher(BackgroundThread):
    """Shares this process's metrics with its group each second, and once more at its end."""

    def __init__(self, group: Group) -> None:
        super().__init__("te-metrics")
        self._group = group

    def run(self) -> None:
        wait = PUBLISH_SECONDS
        while not self.stopping.wait(wait):
            began = time.thread_time()
            try:
                self._group.publish()
            except Exception:
                log.exception("could not publish metrics; retrying")
            wait = max(PUBLISH_SECONDS, (time.thread_time() - began) / MAX_PUBLISH_SHARE)
        self._group.leave()


GROUP = Group(PROCESS)


def serving(address: str) -> list[BackgroundThread]:
    """Return the thread that serves metrics at an address; an empty list without an address."""
    return [MetricsServer(address, GROUP.text)] if address else []


def sharing(role: str) -> list[BackgroundThread]:
    """Return the thread that shares metrics with all processes of the same parent; an empty list if that fails."""
    try:
        GROUP.folder = folder_of(role)
    except OSError as error:
        log.warning("could not share metrics between processes: %s; each process serves its own", error)
        return []
    return [Publisher(GROUP)]
