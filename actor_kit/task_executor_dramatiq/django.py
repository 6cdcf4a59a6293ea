"""Django: messages join the transaction of `atomic()`."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from django.db import connections

if TYPE_CHECKING:
    from task_executor_dramatiq.broker import TaskExecutorBroker


class DjangoTransactions:
    """Way of `TaskExecutorBroker.join_django`: each message that is sent inside `atomic()` is part of it."""

    def __init__(self, broker: "TaskExecutorBroker", alias: str) -> None:
        """Take the alias of the database in DATABASES that holds the service."""
        self._broker = broker
        self._alias = alias

    def __call__(self) -> AbstractContextManager[Any]:
        """Return the transaction of this thread, or nothing outside of `atomic()`."""
        connection = connections[self._alias]
        return self._broker.transaction(connection) if connection.in_atomic_block else nullcontext()
