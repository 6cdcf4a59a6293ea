"""Draining: the end of a process that was asked for, once what it has begun is over."""

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

from app.kernel.function_types import Call
from app.kernel.threads import BackgroundThread

if TYPE_CHECKING:
    from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


def terminate() -> None:
    """Send this process a TERM, which its main thread takes: Dramatiq knows no other way to stop a worker."""
    os.kill(os.getpid(), signal.SIGTERM)


class Draining(BackgroundThread):
    """Waits until nothing is held any more, however long deliveries may take, and has the process end as by TERM.

    Its lease is renewed until then. A TERM of somebody else is obeyed meanwhile, with the shutdown timeout.
    """

    def __init__(self, process: "WorkerProcess") -> None:
        super().__init__("te-drain")
        self._process = process
        self.end: Call = terminate
        self.is_told = threading.Event()  # that the process ends, by a signal
        self.is_over = threading.Event()

    def begin(self) -> None:
        """Claim nothing more, at once, and wait for the rest; does nothing the second time."""
        self._process.drain()
        if self.ensure_started():
            held = len(self._process.shares)
            log.info(
                "worker %s was asked to drain: it claims nothing more, and %d are held", self._process.worker_id, held
            )

    def run(self) -> None:
        """Wait and end."""
        while not self._process.shares.wait_until_empty(LOOK_SECONDS):
            if self.stopping.is_set():
                return
        if not self.is_told.is_set():
            self.is_over.set()
            log.info("worker %s has drained and ends", self._process.worker_id)
            self.end()
