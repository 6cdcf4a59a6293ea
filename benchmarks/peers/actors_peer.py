"""An actor over the broker that ACTORS_BROKER names: `dramatiq benchmarks.peers.actors_peer`.

The actor appends a line to ACTORS_RECORDS, so that the measured time is the broker's.
"""

import importlib
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import dramatiq
import psycopg2

from benchmarks.peers import command
from benchmarks.peers.command import Message


def _ours() -> Any:
    from task_executor_dramatiq import TaskExecutorBroker

    return TaskExecutorBroker(url=os.environ["ACTORS_URL"], results=False)


def _redis() -> Any:
    from dramatiq.brokers.redis import RedisBroker

    return RedisBroker(url=os.environ["BENCH_REDIS_URL"])


def _dramatiq_pg() -> Any:
    from dramatiq_pg import PostgresBroker

    return PostgresBroker(url=os.environ["ACTORS_URL"], results=False)


def _dramatiq_postgres() -> Any:
    from dramatiq_postgres import PostgresBroker

    return PostgresBroker(url=os.environ["ACTORS_URL"], results=False)


BROKERS = {
    "ours": _ours,
    "dramatiq + Redis": _redis,
    "dramatiq-pg": _dramatiq_pg,
    "dramatiq-postgres": _dramatiq_postgres,
}

dramatiq.set_broker(BROKERS[os.environ["ACTORS_BROKER"]]())
_RECORDS = os.open(Path(os.environ["ACTORS_RECORDS"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@dramatiq.actor
def note(key: str) -> None:
    """Append the key and the time in one write, which no other process can split."""
    os.write(_RECORDS, f"{key} {time.time():.6f}\n".encode())


class Queue(command.Queue):
    """Client of Dramatiq."""

    async def send(self, message: Message, delay: float | None = None) -> None:
        note.send_with_options(args=(message["key"],), delay=None if delay is None else round(delay * 1000))


def prepare() -> None:
    """Create the tables of a broker over PostgreSQL."""
    schema = importlib.import_module(f"{os.environ['ACTORS_BROKER'].replace('-', '_')}.schema")
    with closing(psycopg2.connect(os.environ["ACTORS_URL"])) as connection, connection, connection.cursor() as cursor:
        cursor.execute(schema.generate_init_sql())


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare()
    else:
        command.main(Queue())
