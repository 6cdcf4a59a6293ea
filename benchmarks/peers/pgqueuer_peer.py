"""pgqueuer: `python -m benchmarks.peers.pgqueuer_peer work 100`.

As advised: one connection for each queue manager, one HTTP session for all jobs in the context's resources, uvloop, and
one process for each core. pgqueuer's own `pgq run` cannot be used: it fails on its option for the log level.
"""

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta

import aiohttp
import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Context, Job
from pgqueuer.queries import Queries

from benchmarks.peers import command
from benchmarks.peers.command import Message

_AT_ONCE = 1000
_CONNECTIONS = 200


async def post(job: Job, context: Context) -> None:
    """POST the body of a job."""
    message = json.loads(job.payload or b"")
    headers = {"Idempotency-Key": message["key"], "Authorization": f"Bearer {message['token']}"}
    session: aiohttp.ClientSession = context.resources["session"]
    async with session.post(message["url"], json=message["body"], headers=headers) as response:
        await response.read()
        response.raise_for_status()


async def work(batch_size: int) -> None:
    """Deliver until SIGTERM."""
    connection = await asyncpg.connect(os.environ["PGDSN"])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS)) as session:
        pgq = PgQueuer(AsyncpgDriver(connection), resources={"session": session})
        pgq.entrypoint("post")(post)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pgq.shutdown.set)
        print("ready", flush=True)
        await pgq.run(batch_size=batch_size)


class Queue(command.Queue):
    """Client of pgqueuer."""

    async def open(self) -> None:
        self._connection = await asyncpg.connect(os.environ["PGDSN"])
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def send(self, message: Message, delay: float | None = None) -> None:
        execute_after = None if delay is None else timedelta(seconds=delay)
        await self._queries.enqueue("post", json.dumps(message).encode(), execute_after=execute_after)

    async def send_all(self, messages: list[Message]) -> None:
        payloads: list[bytes | None] = [json.dumps(message).encode() for message in messages]
        for begun in range(0, len(payloads), _AT_ONCE):
            part = payloads[begun : begun + _AT_ONCE]
            await self._queries.enqueue(["post"] * len(part), part, [0] * len(part))


if __name__ == "__main__":
    if sys.argv[1] == "work":
        uvloop.run(work(int(sys.argv[2])))
    else:
        command.main(Queue())
