"""Process metrics: the group and exposition of this process, and the threads that serve and share its metrics."""

import logging

from app.kernel.metrics import PROCESS
from app.kernel.metrics.exposition import Exposition
from app.kernel.metrics.folder import folder_of
from app.kernel.metrics.group import Group
from app.kernel.metrics.publisher import Publisher
from app.kernel.metrics.scrape_server import MetricsServer
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

GROUP = Group(PROCESS)
EXPOSITION = Exposition(GROUP)


def serving(address: str) -> list[BackgroundThread]:
    """Return the thread that serves metrics at an address; an empty list without an address."""
    return [MetricsServer(address, EXPOSITION.text)] if address else []


def sharing(role: str) -> list[BackgroundThread]:
    """Return the thread that shares metrics with all processes of the same parent; an empty list if that fails."""
    try:
        GROUP.folder = folder_of(role)
    except OSError as error:
        log.warning("could not share metrics between processes: %s; each process serves its own", error)
        return []
    return [Publisher(GROUP)]
