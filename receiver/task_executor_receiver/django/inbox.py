"""Inbox for Django's ORM: the handler receives the alias of the database and runs inside a transaction of it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from django.db import connections, transaction

from task_executor_receiver.inbox import RETRY_AFTER_SECONDS
from task_executor_receiver.sql import SqlInbox, is_sqlite


class DjangoInbox(SqlInbox[str]):
    """Inbox in one of Django's databases.

    The inbox opens `atomic()` itself and fails with RuntimeError inside another transaction: see `views.view`. Threads
    may share an inbox, because Django has a connection for each thread. After a caught database error the handler needs
    an inner `atomic()`.

    Args:
        using: Alias of the database; the handler receives it as second argument.
        retry_after: Seconds that the answer asks the service to wait while another attempt is running.

    Example:
        def handler(delivery: Delivery, using: str) -> None:
            Shipment.objects.using(using).create(order_id=delivery.json()["order_id"])


        receiver = Receiver(Verifier(secret), DjangoInbox(), handler)
    """

    def __init__(self, using: str = "default", retry_after: int = RETRY_AFTER_SECONDS) -> None:
        super().__init__(retry_after)
        self._using = using

    @contextmanager
    def _transaction(self) -> Iterator[str]:
        # Durable: inside another transaction the attempt would not be committed before the handler runs.
        with transaction.atomic(using=self._using, durable=True):
            yield self._using

    def _run(self, tx: str, statement: str, values: dict[str, Any]) -> int:
        with connections[tx].cursor() as cursor:
            cursor.execute(_pyformat(statement), values)
            return int(cursor.rowcount)

    def _rows(self, tx: str, statement: str, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        with connections[tx].cursor() as cursor:
            cursor.execute(_pyformat(statement), values)
            return list(cursor.fetchall())

    def _is_sqlite(self, tx: str) -> bool:
        return is_sqlite(connections[tx].vendor)


@lru_cache
def _pyformat(statement: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", statement)
