"""Process: what this process tells of itself, and the threads that do so."""

import logging

from app.kernel.metrics import PROCESS
from app.kernel.metrics.exposition import Exposition
from app.kernel.metrics.folder import Folder, folder_of
from app.kernel.metrics.group import Group
from app.kernel.metrics.publisher import Publisher
from app.kernel.metrics.scrape_server import MetricsServer
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

GROUP = Group(PROCESS)
EXPOSITION = Exposition(GROUP)


def serving(address: str) -> list[BackgroundThread]:
    """Return the thread that serves metrics at an address; none without one."""
    return [MetricsServer(address, EXPOSITION.text)] if address else []


def sharing(role: str) -> list[BackgroundThread]:
    """Return the thread that shares what is counted with all processes of the same parent; none where that fails."""
    try:
        folder: Folder | None = folder_of(role)
    except OSError as error:
        log.warning("metrics are those of each process alone: %s", error)
        return []
    GROUP.folder = folder
    return [Publisher(GROUP)]
