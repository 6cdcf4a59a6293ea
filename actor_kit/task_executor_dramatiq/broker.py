"""Broker: the Dramatiq broker of a user's processes."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from dramatiq.broker import Broker
from dramatiq.errors import BrokerConnectionError, QueueJoinTimeout, QueueNotFound
from dramatiq.middleware import Middleware
from dramatiq.results import Results

from task_executor_dramatiq import unfinished
from task_executor_dramatiq.actor_description import described
from task_executor_dramatiq.callers_transaction import executing
from task_executor_dramatiq.consumer import ActorConsumer, Starting
from task_executor_dramatiq.http_sending import HttpSender
from task_executor_dramatiq.in_hand import MessageInHand
from task_executor_dramatiq.link import Links
from task_executor_dramatiq.messages import Job, delay_of, endpoint_name, input_of, priority_of
from task_executor_dramatiq.results import ExecutionsBackend
from task_executor_dramatiq.sending import Execute, PostgresSender, UnknownActorError, enqueue
from task_executor_dramatiq.sent_executions import SentExecutions

DEFAULT_WORKER = "unix:/run/task-executor/actors"
JOIN_PAUSE_SECONDS = 0.02
_HOOKS = frozenset(vars(Starting))  # its own; a call of an inherited hook does nothing
_OWN: Any = object()  # no connection was given; a caller without a connection may give None


class TaskExecutorBroker(Broker):
    """Broker whose messages are executions of Task Executor.

    Args:
        url: Target of sent messages: `postgresql://…` (by te_enqueue), or `http://…` of the API.
        key: API key, if `url` is of the API or `worker` is on another machine.
        worker: Source of received messages: `unix:` and the directory of the sockets of the workers on this host, or
            `te-actors://HOST:PORT` of workers elsewhere; `?ca=FILE` names their authority. Default: the variable
            TASK_EXECUTOR_ACTORS, else unix:/run/task-executor/actors.
        api: URL of the API and its key, to read results and to abort, if `url` is of a database whose tables this
            role cannot read.
        middleware: As of any broker; None for Dramatiq's own.
        results: Whether the results of actors with `store_results` are kept by the service.

    Raises:
        ValueError: A URL of another kind, or an `http://…` with a user or a password.

    Example:
        broker = TaskExecutorBroker(url="https://te.example.com", key=os.environ["TE_KEY"])
        dramatiq.set_broker(broker)
    """

    def __init__(
        self,
        *,
        url: str,
        key: str | None = None,
        worker: str | None = None,
        api: tuple[str, str] | None = None,
        middleware: list[Middleware] | None = None,
        results: bool = True,
    ) -> None:
        self._links = Links(
            worker or os.environ.get("TASK_EXECUTOR_ACTORS") or DEFAULT_WORKER, partial(described, self), key
        )
        self._after = threading.local()  # `hand`: the message whose after_process_message runs on this thread
        self._transaction: ContextVar[Execute | None] = ContextVar("transaction", default=None)
        self._joining: Callable[[], AbstractContextManager[Any]] | None = None
        self._has_tried = False  # to register the actors before a transaction
        self.sender: HttpSender | PostgresSender
        self.sender = HttpSender(url, key) if url.startswith("http") else PostgresSender(url)
        self.reader: HttpSender | PostgresSender = self.sender if api is None else HttpSender(*api)
        self.executions = SentExecutions(self.reader)
        self._starting = Starting(self._links)
        super().__init__(middleware)
        self.queues: dict[str, None] = {}
        self.actor_options |= self._starting.actor_options
        if results and not any(isinstance(each, Results) for each in self.middleware):
            self.add_middleware(Results(backend=ExecutionsBackend(self)))

    @property
    def message_that_ends(self) -> MessageInHand | None:
        """The message whose end middleware handles on this thread; None elsewhere."""
        hand: MessageInHand | None = getattr(self._after, "hand", None)
        return hand

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue; a second declaration does nothing. There are no delay queues: the service waits."""
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def declare_actor(self, actor: Any) -> None:
        """Declare an actor; a process that is linked to a worker registers it at once, so no message waits for that."""
        super().declare_actor(actor)
        if self._links.is_open:
            self._links.declare()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> ActorConsumer:
        """Return the consumer of a queue; raises BrokerConnectionError if no worker listens on this host."""
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        self._links.open()
        if missing := self.actors.keys() - self._links.welcome.endpoints.keys() - self._links.welcome.refused.keys():
            self.logger.debug("Registering %d actors.", len(missing))
            self._links.declare()
        return ActorConsumer(self._links, queue_name, prefetch, timeout)

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """Send a message; raises QueueNotFound, SendError, or BrokerConnectionError.

        A message that middleware enqueues after an actor is sent with the outcome of the actor, in one transaction; the
        message in hand itself is tried again.
        """
        if message.queue_name not in self.queues:
            raise QueueNotFound(message.queue_name)
        hand = self.message_that_ends
        wait = delay_of(message, delay, self.logger)
        self.emit_before("enqueue", message, delay)
        if hand is not None and _is_same(hand, message):
            hand.again_ms = wait or 0
        elif hand is not None:
            hand.then.append(self._job(message, wait))
        else:
            is_joined = self._joining is None or self._transaction.get() is not None
            with nullcontext() if is_joined or self._joining is None else self._joining():
                self._send(self._job(message, wait), message.actor_name)
        self.emit_after("enqueue", message, delay)
        return message

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Call the hooks of the broker, which are no middleware of the user, and then the middleware."""
        if (hook := f"before_{signal}") in _HOOKS:
            getattr(self._starting, hook)(self, *args, **kwargs)
        super().emit_before(signal, *args, **kwargs)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Call the middleware; while it handles the end of an actor, `enqueue` collects messages."""
        message, outer = args[0] if args else None, self.message_that_ends
        if isinstance(message, MessageInHand):
            if message.is_dropped:
                return
            if signal == "process_message":
                self._after.hand = message
        try:
            super().emit_after(signal, *args, **kwargs)
            if (hook := f"after_{signal}") in _HOOKS:
                getattr(self._starting, hook)(self, *args, **kwargs)
        finally:
            self._after.hand = outer  # `enqueue` comes here while middleware handles the end of an actor

    @contextmanager
    def transaction(self, connection: Any = _OWN) -> Iterator[None]:
        """Send messages in a transaction: they exist if and only if it commits.

        Args:
            connection: Session or connection of SQLAlchemy, or connection of psycopg or Django, to the database of the
                service. The caller commits. Default: a connection of the broker, which commits at the end of the block.

        Raises:
            TypeError: Anything else, or a broker with the URL of the API or a sender of its own.
            SendError: When a message is sent, if the connection commits each statement (autocommit); by default also at
                the end of a block that has gone on after a refused message.
            BrokerConnectionError: By default, without a connection or a commit.
        """
        if isinstance(self.sender, HttpSender):
            raise TypeError("the API has no transactions: give the broker the URL of the database")
        if connection is not _OWN:
            transaction: AbstractContextManager[Execute] = nullcontext(executing(connection))
        elif isinstance(self.sender, PostgresSender):
            transaction = self.sender.transaction()
        else:
            raise TypeError(f"{type(self.sender).__name__} makes no transaction: give a connection")
        with transaction as execute:
            token = self._transaction.set(execute)
            try:
                yield
            finally:
                self._transaction.reset(token)

    def join_django(self, alias: str = "default") -> None:
        """Send each message in the transaction of Django's `atomic()`, if this thread has an open one.

        Args:
            alias: Name of the database of the service in DATABASES.

        Raises:
            TypeError: The broker has the URL of the API.
        """
        if isinstance(self.sender, HttpSender):
            raise TypeError("the API has no transactions: give the broker the URL of the database")
        from task_executor_dramatiq.django import DjangoTransactions  # noqa: PLC0415 - few users have Django

        self._joining = DjangoTransactions(self, alias)

    def abort(self, message: Any) -> None:
        """Cancel a message, and interrupt its actor by Abort if it runs; needs a broker that reads by the API."""
        self.cancel(message, if_running="abort")

    def cancel(self, message: Any, *, if_running: str = "request") -> None:
        """Cancel a message that waits; an actor that runs is not retried, or with `abort` interrupted by Abort.

        Raises EndedError for a message that has ended, and MissingExecutionError for a message that the service does
        not have, such as one whose transaction is open. Needs a broker that reads by the API.
        """
        self.executions.cancel(message, if_running)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """Wait until no message of a queue is unfinished; for tests. Raises QueueJoinTimeout."""
        endpoints = self._endpoints_of(queue_name)
        until = None if timeout is None else time.monotonic() + timeout / 1000
        while unfinished.exists(self.reader, endpoints):
            if until is not None and time.monotonic() >= until:
                raise QueueJoinTimeout(queue_name)
            time.sleep(JOIN_PAUSE_SECONDS)

    def flush(self, queue_name: str) -> None:
        """Cancel all messages of a queue that wait; needs a broker that reads by the API, and a scheduler."""
        if not isinstance(self.reader, HttpSender):
            raise TypeError("give the broker the API: api=(url, key)")
        unfinished.cancel(self.reader, self._endpoints_of(queue_name))

    def flush_all(self) -> None:
        """Cancel all messages that wait in the declared queues; needs the same as `flush`."""
        for queue_name in self.queues:
            self.flush(queue_name)

    def close(self) -> None:
        """Close the link, and the connections of this thread."""
        self._links.close()
        self.sender.close()
        self.reader.close()

    def _endpoints_of(self, queue_name: str) -> list[str]:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        return [endpoint_name(actor.actor_name) for actor in self.actors.values() if actor.queue_name == queue_name]

    def _job(self, message: Any, delay_ms: int | None) -> Job:
        actor = self.actors.get(message.actor_name)
        own, sent = 0 if actor is None else actor.priority, message.options.get("broker_priority")
        priority = priority_of(own, sent or 0) if own or sent else None
        return Job(endpoint_name(message.actor_name), input_of(message), message.message_id, delay_ms, priority)

    def _send(self, job: Job, actor_name: str) -> None:
        """Send a job; an actor that the service does not know yet is registered, if a worker listens."""
        execute = self._transaction.get()
        if execute is not None:
            self._register_before_a_transaction_fails(job)
            enqueue(execute, job)
            return
        try:
            self.sender.send(job)
        except UnknownActorError as error:
            try:
                self._links.declare()
            except BrokerConnectionError:
                message = f"{error}: start a process with the actor first, or a worker that listens on this host"
                raise UnknownActorError(message) from error
            if reason := self._links.welcome.refused.get(actor_name):
                raise UnknownActorError(f"{error}; the worker does not register it: {reason}") from error
            self.sender.send(job)

    def _register_before_a_transaction_fails(self, job: Job) -> None:
        """Register the actors of this process unless it has: an unknown endpoint would abort the transaction."""
        if job.endpoint not in self._links.welcome.endpoints.values() and not self._has_tried:
            self._has_tried = True
            with suppress(BrokerConnectionError):  # actors may be registered by other processes
                self._links.declare()


def _is_same(hand: MessageInHand, message: Any) -> bool:
    """Return whether a message equals the message in hand, including its arguments."""
    same = hand.message_id == message.message_id and hand.actor_name == message.actor_name
    return same and tuple(hand.args) == tuple(message.args) and hand.kwargs == message.kwargs
