"""Draining: the requested end of a worker process, once its attempts have ended."""

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

from app.kernel.function_types import Call
from app.kernel.processes import worker_commands
from app.kernel.processes.worker_commands import CommandKind
from app.kernel.threads import BackgroundThread

if TYPE_CHECKING:
    from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0


def terminate() -> None:
    """Send TERM to this process, the only way to stop a worker of Dramatiq."""
    os.kill(os.getpid(), signal.SIGTERM)


class Draining(BackgroundThread):
    """Waits until no claim is held, however long deliveries take, and ends the process as by TERM.

    The lease is renewed until then. A TERM from outside applies as usual, with the shutdown timeout.
    """

    def __init__(self, process: "WorkerProcess") -> None:
        super().__init__("te-drain")
        self._process = process
        self.end: Call = terminate
        self.is_told = threading.Event()  # the process ends, by a signal
        self.is_over = threading.Event()
        self._executed: set[str] = set()  # commands that are not acknowledged yet
        self._unknown: set[str] = set()

    def obey(self) -> bool:
        """Acknowledge executed commands and execute new commands; return whether some are not acknowledged.

        Called with each heartbeat of te-health. Raises UnavailableError; a later heartbeat tries again.
        """
        database, worker_id = self._process.database, self._process.worker_id
        if self._executed:
            worker_commands.acknowledge(database, worker_id, sorted(self._executed))
            self._executed.clear()
        for row in worker_commands.pending(database, worker_id):
            if row.command == CommandKind.DRAIN:
                self.begin()
                self._executed.add(row.command_id)
            elif row.command_id not in self._unknown:
                self._unknown.add(row.command_id)
                log.warning("command %s (%s) is of a later release; ignoring it", row.command_id, row.command)
        return bool(self._executed)

    def begin(self) -> None:
        """Stop claiming at once, and wait for the claims in flight; does nothing the second time."""
        self._process.drain()
        if self.ensure_started():
            held = len(self._process.shares)
            log.info("worker %s drains: it claims nothing; executions to finish: %d", self._process.worker_id, held)

    def run(self) -> None:
        while not self._process.shares.wait_until_empty(CHECK_SECONDS):
            if self.stopping.is_set():
                return
        if not self.is_told.is_set():
            self.is_over.set()
            log.info("worker %s is drained and ends", self._process.worker_id)
            self.end()
