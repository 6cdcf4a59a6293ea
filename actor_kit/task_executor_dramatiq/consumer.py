"""Consumer of one queue, and the middleware that starts and ends messages."""

import queue
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dramatiq import worker as dramatiq_worker
from dramatiq.broker import Consumer
from dramatiq.errors import ActorNotFound
from dramatiq.middleware import Middleware, SkipMessage
from dramatiq.middleware.threading import Interrupt

from task_executor_dramatiq.in_hand import MessageInHand

if TYPE_CHECKING:
    from dramatiq import Broker, Worker

    from task_executor_dramatiq.link import Links

MAX_PER_THREAD = 16  # messages of a queue for each thread; a worker sends fewer unless the actors are very quick
_PER_THREAD = 2  # of Dramatiq


class ActorConsumer(Consumer):
    """Messages of one queue, as they come over the link."""

    def __init__(self, links: "Links", queue_name: str, prefetch: int, timeout: int) -> None:
        """Take the longest wait for a message, in milliseconds."""
        self._links = links
        self._queue_name = queue_name
        self._timeout_seconds = timeout / 1000
        # Dramatiq's own number says nothing of the actors: the worker measures them, and sends more to quick ones.
        is_default = not links.prefetch and prefetch == _PER_THREAD * links.threads
        self._inbox = links.set_room(queue_name, MAX_PER_THREAD * links.threads if is_default else prefetch)

    def __next__(self) -> MessageInHand | None:
        try:
            message = self._inbox.get(timeout=self._timeout_seconds)
        except queue.Empty:
            self._links.outcomes.send_waiting()  # the threads may be paused
            return None
        return None if message.is_dropped else message

    def ack(self, message: Any) -> None:
        """Report that a message has succeeded, or is to run again."""
        _conclude(message, is_failed=False)

    def nack(self, message: Any) -> None:
        """Report that a message has failed for good."""
        _conclude(message, is_failed=True)

    def requeue(self, messages: Iterable[Any]) -> None:
        """Give messages back that have not started; no attempt is spent."""
        for message in messages:
            self._links.held.give_back(message)

    def close(self) -> None:
        """Take no more messages, and give back messages that no thread has begun."""
        self._links.set_room(self._queue_name, 0)
        while True:
            try:
                self._links.held.give_back(self._inbox.get_nowait())
            except queue.Empty:
                return


def _conclude(message: Any, *, is_failed: bool) -> None:
    """Send the outcome of a message; nothing if no consumer has brought it, as with Dramatiq's brokers."""
    if isinstance(message, MessageInHand):
        message.conclude(is_failed=is_failed)


class Starting(Middleware):
    """Hooks of a broker around its middleware: starts each message, and links the process to a worker."""

    def __init__(self, links: "Links") -> None:
        self._links = links

    @property
    def actor_options(self) -> set[str]:
        """Options of actors that the service reads."""
        return {"cron", "interval", "max_lost", "soft_time_limit_ms", "timezone"}

    def before_worker_boot(self, _broker: "Broker", worker: "Worker") -> None:
        """Report the number of threads, and a prefetch that dramatiq_queue_prefetch sets."""
        self._links.threads = worker.worker_threads
        self._links.prefetch = dramatiq_worker.QUEUE_PREFETCH

    def before_worker_shutdown(self, _broker: "Broker", _worker: "Worker") -> None:
        """Ask the worker for no further messages, which would only come back while the threads end."""
        self._links.stop_messages()

    def after_worker_shutdown(self, _broker: "Broker", _worker: "Worker") -> None:
        """Close the link: all outcomes are sent."""
        self._links.close()

    def before_worker_thread_shutdown(self, broker: "Broker", _thread: Any) -> None:
        """Close the connections that actors on this thread used to send messages or read results."""
        broker.sender.close()  # type: ignore[attr-defined]
        broker.reader.close()  # type: ignore[attr-defined]

    def before_process_message(self, _broker: "Broker", message: Any) -> None:
        """Start a message; raises SkipMessage if the worker has taken it back."""
        if isinstance(message, MessageInHand) and not message.start():
            raise SkipMessage("the worker has taken the message back")

    def after_process_message(
        self, broker: "Broker", message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        """Let no abort interrupt the acknowledgement, and note the category of the exception."""
        del result
        if isinstance(message, MessageInHand):
            message.end()
            message.category = None if exception is None else _category_of(broker, message, exception)

    def after_skip_message(self, _broker: "Broker", message: Any) -> None:
        """Note that the actor did not run."""
        if isinstance(message, MessageInHand):
            message.is_skipped = True


def _category_of(broker: "Broker", message: MessageInHand, exception: BaseException) -> str | None:
    """Return the category of an exception; None if the decision of the middleware says it: another attempt, or none."""
    if isinstance(exception, Interrupt):
        return "INTERRUPTED"
    if isinstance(exception, ActorNotFound):
        return "MALFORMED"
    throws = message.options.get("throws") or broker.get_actor(message.actor_name).options.get("throws")
    return "EXPECTED" if throws and isinstance(exception, throws) else None
