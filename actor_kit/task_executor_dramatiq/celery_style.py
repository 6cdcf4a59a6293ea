"""Celery's names for sending: for code that comes from Celery."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from dramatiq import Actor
from dramatiq.message import Message

from task_executor_dramatiq.results import ExecutionsBackend
from task_executor_dramatiq.sending import EndedError

STATES = {
    "PENDING": "PENDING",
    "QUEUED": "PENDING",
    "RUNNING": "STARTED",
    "RETRYING": "RETRY",
    "SUCCESS": "SUCCESS",
    "FAILED": "FAILURE",
    "CANCELLED": "REVOKED",
}
"""States of Celery by the statuses of executions."""
READY = frozenset({"SUCCESS", "FAILURE", "REVOKED"})


class AsyncResult:
    """A message that was sent, with the names of Celery's AsyncResult."""

    def __init__(self, actor: "CeleryActor", message: Any) -> None:
        self.message = message
        self._broker = cast("Any", actor.broker)  # the broker of the kit
        self._executions = ExecutionsBackend(self._broker)

    @property
    def id(self) -> str:
        """Return the id of the message."""
        message_id: str = self.message.message_id
        return message_id

    @property
    def state(self) -> str:
        """Return the state, as Celery names it: PENDING, STARTED, RETRY, SUCCESS, FAILURE or REVOKED.

        A message that the service does not know is PENDING.
        """
        return STATES[self._executions.status(self.message) or "PENDING"]

    status = state

    def ready(self) -> bool:
        """Return whether the message has ended."""
        return self.state in READY

    def successful(self) -> bool:
        """Return whether the actor has succeeded."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Return whether the actor has failed for good."""
        return self.state == "FAILURE"

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result, for at most `timeout` seconds, ten by default.

        Raises ResultTimeout, or ResultFailure with type and message of the exception.
        """
        milliseconds = None if timeout is None else round(timeout * 1000)
        return self.message.get_result(backend=self._broker.get_results_backend(), block=True, timeout=milliseconds)

    def revoke(self, *, terminate: bool = False) -> None:
        """Cancel the message; an actor that runs continues, and is not retried.

        With `terminate` it is interrupted by Abort. A message that has ended stays as it is. Raises
        MissingExecutionError before the commit of the transaction that sent it. Needs a broker that reads by the API.
        """
        with suppress(EndedError):
            self._broker.cancel(self.message, if_running="abort" if terminate else "request")


class CeleryActor(Actor[..., Any]):
    """Actor with Celery's `delay`, `apply_async`, `AsyncResult`, `s` and `si`.

    Example:
        @dramatiq.actor(actor_class=CeleryActor, store_results=True)
        def add(first: int, second: int) -> int:
            return first + second


        add.delay(1, 2).get()
    """

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Send a message with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: float | None = None,
        eta: datetime | None = None,
        expires: float | datetime | None = None,
        task_id: str | UUID | None = None,
        priority: int | None = None,
    ) -> AsyncResult:
        """Send a message.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.
            countdown: Seconds to wait.
            eta: Instant to wait for, with a time zone; not together with `countdown`.
            expires: Seconds from now, or an instant, after which the message fails instead of running.
            task_id: Id of the message, a string or a UUID; a second message with a known id is not sent.
            priority: More is earlier, as with RabbitMQ; it adds to the priority of the actor.
        """
        if countdown is not None and eta is not None:
            raise ValueError("countdown and eta: give one of them")
        options = {} if expires is None else {"max_age": max(1, _milliseconds_until(expires))}
        if priority is not None:
            options["broker_priority"] = priority
        message: Message[Any] = self.message_with_options(args=tuple(args or ()), kwargs=dict(kwargs or {}), **options)
        if task_id is not None:
            message = message.copy(message_id=str(task_id))
        wait = countdown if countdown is not None else eta
        self.broker.enqueue(message, delay=None if wait is None else max(0, _milliseconds_until(wait)))
        return AsyncResult(self, message)

    def AsyncResult(self, task_id: str | UUID) -> AsyncResult:  # noqa: N802 - Celery's name
        """Return the result of a message by its id."""
        return AsyncResult(self, self.message().copy(message_id=str(task_id)))

    def s(self, *args: Any, **kwargs: Any) -> "Message[Any]":
        """Return a message for a pipeline (`|`) or a group; it gets the result of the stage before."""
        return self.message(*args, **kwargs)

    def si(self, *args: Any, **kwargs: Any) -> "Message[Any]":
        """Return a message for a pipeline that does not get the result of the stage before."""
        return self.message_with_options(args=args, kwargs=kwargs, pipe_ignore=True)


def _milliseconds_until(when: float | datetime) -> int:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError("an instant has a time zone, such as datetime.now(UTC)")
        return round(when.timestamp() * 1000 - time.time() * 1000)
    return round(when * 1000)
