"""Broker for Dramatiq's tests: TaskExecutorBroker with the parts of StubBroker that only tests use."""

import os
from collections import defaultdict
from typing import Any

from dramatiq.middleware import Middleware
from task_executor_dramatiq import TaskExecutorBroker
from task_executor_dramatiq.messages import endpoint_name

# Left messages of a test, which must not reach the next one: no request of users.
CANCEL = """
    WITH gone AS (UPDATE executions SET status = 'CANCELLED', completed_at = now()
                   WHERE completed_at IS NULL AND status <> 'RUNNING' AND endpoint = ANY(%s) RETURNING job_id)
    UPDATE jobs SET status = 'RETIRED', retired_at = now() WHERE job_id IN (SELECT job_id FROM gone)
    RETURNING job_id"""


class SuiteBroker(TaskExecutorBroker):
    """Adds `dead_letters`, and `join` with `fail_fast`; `min_successes` is RabbitMQ's, whose counts are not exact."""

    def __init__(self, *, fail_fast_default: bool = True, middleware: list[Middleware] | None = None) -> None:
        super().__init__(url=os.environ["BROKER_URL"], middleware=middleware, results=False)
        self.fail_fast_default = fail_fast_default
        self.dead_letters_by_queue: dict[str, list[Any]] = defaultdict(list)

    @property
    def dead_letters(self) -> list[Any]:
        return [message for messages in self.dead_letters_by_queue.values() for message in messages]

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        super().emit_before(signal, *args, **kwargs)
        if signal == "nack":
            (message,) = args
            message.kept_exception = message._exception  # noqa: SLF001 - StubBroker reads it too
            self.dead_letters_by_queue[message.queue_name].append(message)

    def join(
        self, queue_name: str, *, timeout: int | None = None, fail_fast: bool | None = None, min_successes: int = 0
    ) -> None:
        del min_successes
        super().join(queue_name, timeout=timeout)
        if self.fail_fast_default if fail_fast is None else fail_fast:
            for message in self.dead_letters_by_queue[queue_name]:
                raise (message.kept_exception or Exception("Message failed with unknown error")) from None

    def flush(self, queue_name: str) -> None:
        actors = [actor for actor in self.actors.values() if actor.queue_name == queue_name]
        names = [endpoint_name(actor.actor_name) for actor in actors]
        self.sender.run(lambda execute: execute(CANCEL, (names,)))

    def flush_all(self) -> None:
        for queue_name in self.queues:
            self.flush(queue_name)
        for letters in self.dead_letters_by_queue.values():
            letters.clear()

    def forget_limits(self) -> None:
        """Delete the values of limiters: Dramatiq's tests use the same keys."""
        self.sender.run(lambda execute: execute("WITH gone AS (DELETE FROM limiter_values) SELECT 1", ()))
