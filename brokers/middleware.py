"""Middleware of Dramatiq's worker: its start and its end."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from dramatiq.middleware import Middleware
from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db.retries import driver_message
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Call
from app.kernel.threads import BackgroundThread, is_vital
from brokers.queue_scan import QueueScan
from brokers.worker_process import WorkerProcess

if TYPE_CHECKING:
    from dramatiq.broker import Broker
    from dramatiq.worker import Worker

log = logging.getLogger(__name__)

TERM_REPEAT_SECONDS = 2.0
EXIT_NOT_STARTED = 3  # Dramatiq's own exit status when a broker is unreachable


class Lifecycle(Middleware):
    """Opens the worker process before the first claim, and closes it after the last delivery."""

    def __init__(
        self,
        process: WorkerProcess,
        threads: Sequence[BackgroundThread],
        on_open: Call | None = None,
        *,
        finds_queues: bool = False,
    ) -> None:
        """With `finds_queues`, a worker without a list of queues serves all queues with waiting executions."""
        self._process = process
        self._threads = threads
        self._on_open = on_open
        self._finds_queues = finds_queues
        self._survey: QueueScan | None = None

    def after_process_boot(self, broker: "Broker") -> None:
        """Install the handler of TERM."""
        install_term_handler(self._process)

    def before_worker_boot(self, broker: "Broker", worker: "Worker") -> None:
        """Register this process; threads start here, in the child process, not at import in the parent."""
        for queue in worker.consumer_whitelist or ():
            broker.declare_queue(queue)
        queues = worker.consumer_whitelist or broker.get_declared_queues()
        threading.excepthook = self._thread_died
        try:
            self._process.open(queues)
        except UnavailableError as error:
            self._refuse(error.explained)
        except SQLAlchemyError as error:
            self._refuse(f"the database said: {driver_message(error)}")
        if self._on_open is not None:
            self._on_open()
        for thread in self._threads:
            thread.start()

    def after_worker_boot(self, broker: "Broker", worker: "Worker") -> None:
        """Start to find further queues: the worker consumes each queue that is declared from now on."""
        if self._finds_queues and not worker.consumer_whitelist:
            self._survey = QueueScan(self._process, worker)
            self._survey.start()

    def before_worker_shutdown(self, broker: "Broker", worker: "Worker") -> None:
        """Stop claiming while Dramatiq stops its threads."""
        self._process.drain()
        if self._survey is not None:
            self._survey.stop()

    def after_worker_shutdown(self, broker: "Broker", worker: "Worker") -> None:
        """Wait for deliveries, write results, and close the process."""
        self._process.close()
        for thread in reversed(self._threads):
            thread.stop()

    def _refuse(self, message: str) -> NoReturn:
        """End this process: after an exception in this hook, Dramatiq would run a worker that never claims."""
        if self._process.draining.is_set():
            sys.exit(0)
        log.error("the worker cannot start: %s", message)
        sys.exit(EXIT_NOT_STARTED)

    def _thread_died(self, args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread else "?"
        log.critical("thread %s died", name, exc_info=args.exc_value)
        if is_vital(args.thread):
            # Without its finalizer, heartbeat, watchdog or delivery loop, a worker only seems alive.
            self._process.give_up(f"its thread {name} died")


def install_term_handler(process: WorkerProcess, repeat_seconds: float = TERM_REPEAT_SECONDS) -> None:
    """Stop claiming as soon as TERM arrives, and ignore repeats for `repeat_seconds`.

    Dramatiq's parent forwards TERM to its children. If the whole process group gets it too (honcho, systemd,
    `timeout`), the second TERM would make Dramatiq exit at once, without a clean shutdown.
    """
    inner = signal.getsignal(signal.SIGTERM)
    seen: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if seen and now - seen[-1] < repeat_seconds:
            return
        seen.append(now)
        if len(seen) == 2 and process.leaving.is_over.is_set():
            return  # the process sent the first TERM itself: this is the first one from outside
        process.leaving.is_told.set()
        process.draining.set()
        if callable(inner):
            inner(number, frame)

    signal.signal(signal.SIGTERM, handle)
