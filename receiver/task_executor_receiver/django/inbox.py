"""Inbox for Django's ORM: the handler is given the alias of the database, in a transaction of which it runs."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from django.db import connections, transaction

from task_executor_receiver.inbox import RETRY_AFTER_SECONDS
from task_executor_receiver.sql import SqlInbox, is_sqlite


class DjangoInbox(SqlInbox[str]):
    """Inbox in one of Django's databases; `atomic()` is begun here, and must not be around it: see `views.view`."""

    def __init__(self, using: str = "default", retry_after: int = RETRY_AFTER_SECONDS) -> None:
        super().__init__(retry_after)
        self._using = using

    @contextmanager
    def _transaction(self) -> Iterator[str]:
        # Durable: inside of another transaction nothing would be noted before it ends.
        with transaction.atomic(using=self._using, durable=True):
            yield self._using

    def _run(self, tx: str, statement: str, values: dict[str, Any]) -> int:
        with connections[tx].cursor() as cursor:
            cursor.execute(_in_djangos_way(statement), values)
            return int(cursor.rowcount)

    def _rows(self, tx: str, statement: str, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        with connections[tx].cursor() as cursor:
            cursor.execute(_in_djangos_way(statement), values)
            return list(cursor.fetchall())

    def _is_sqlite(self, tx: str) -> bool:
        return is_sqlite(connections[tx].vendor)


@lru_cache
def _in_djangos_way(statement: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", statement)
