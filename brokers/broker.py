"""Broker: the Dramatiq broker whose messages are rows of `executions`."""

from typing import Any, NoReturn

from dramatiq.broker import Broker
from dramatiq.errors import QueueNotFound
from dramatiq.message import Message
from dramatiq.middleware import Middleware

from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess


class ExecutionsBroker(Broker):
    """Dramatiq broker whose queues are the executions in the database; a queue may have several transports.

    There are no delay queues and no retries by message: a retry is the same row with a later run_at. The API and the
    scheduler create the rows in their own transactions.

    Args:
        process: Worker process that claims executions and writes results.
        middleware: All middleware of the broker. Dramatiq's defaults are left out, because its retry middleware sends a
            message when an actor raises.

    Attributes:
        process: The worker process.
        queues: Declared queues, in the order of their declaration.

    Example:
        broker = ExecutionsBroker(process, [Lifecycle(process, [loop])])
        dramatiq.Actor(actor, broker=broker, actor_name=DELIVER, queue_name="http", priority=0, options={})
        worker = dramatiq.Worker(broker, worker_threads=2)
        worker.start()
    """

    def __init__(self, process: WorkerProcess, middleware: list[Middleware]) -> None:
        super().__init__(middleware=middleware)
        self.process = process
        self.queues: dict[str, None] = {}

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue; a second declaration does nothing.

        Args:
            queue_name: Name of the queue.
        """
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> ClaimConsumer:
        """Build the consumer of a queue, which belongs to the calling thread.

        Args:
            queue_name: Name of a declared queue.
            prefetch: Ignored. Dramatiq derives it from its number of threads, but deliveries hold no threads.
                TE_WORKER_MAX_CONCURRENT bounds the claims.
            timeout: Longest wait of `next(consumer)` for a message, in milliseconds.

        Returns:
            An iterator over messages, each with up to 16 attempts, and None after each timeout.

        Raises:
            QueueNotFound: The queue is not declared.
        """
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        return ClaimConsumer(self.process, queue_name, timeout)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> NoReturn:
        """Refuse: an execution belongs to a job, and jobs are created through the API.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("create a job with POST /jobs; `send()` on a delivery actor has no job to belong to")
