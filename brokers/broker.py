"""Broker: the Dramatiq broker whose messages are rows of `executions`."""

from typing import Any, NoReturn

from dramatiq.broker import Broker
from dramatiq.errors import QueueNotFound
from dramatiq.message import Message
from dramatiq.middleware import Middleware

from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess


class ExecutionsBroker(Broker):
    """Consumes the executions of each queue; a queue may have several transports.

    There are no delay queues and no retries by message: a retry is the same row with a later run_at. The API and the
    scheduler create the rows in their own transactions.
    """

    def __init__(self, process: WorkerProcess, middleware: list[Middleware]) -> None:
        # Without Dramatiq's own middleware, which sends a retry message when an actor raises.
        super().__init__(middleware=middleware)
        self.process = process
        self.queues: dict[str, None] = {}

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue; declaring it again does nothing."""
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> ClaimConsumer:
        """Build the consumer of a queue.

        `prefetch`, which Dramatiq derives from its number of threads, is ignored: deliveries hold no threads. Claims
        are bounded by TE_WORKER_MAX_CONCURRENT.
        """
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        return ClaimConsumer(self.process, queue_name, timeout)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> NoReturn:
        """Refuse: an execution belongs to a job, and jobs are created through the API."""
        raise NotImplementedError("create a job with POST /jobs; `send()` on a delivery actor has no job to belong to")
