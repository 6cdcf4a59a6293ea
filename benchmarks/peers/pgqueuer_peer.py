"""pgqueuer: `python -m benchmarks.peers.pgqueuer_peer work`.

As advised: one connection for each queue manager, one HTTP session for all jobs in the context's resources, uvloop,
one process for each core. Its own `pgq run` of this version fails on its option for the log level.
"""

import asyncio
import json
import os
import signal
import sys

import aiohttp
import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Context, Job
from pgqueuer.queries import Queries

_ENQUEUED_AT_ONCE = 1000
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


async def enqueue(url: str, count: int, body: str, token: str) -> None:
    """Fill the queue in bulk."""
    connection = await asyncpg.connect(os.environ["PGDSN"])
    queries = Queries(AsyncpgDriver(connection))
    run = os.urandom(4).hex()
    messages = [
        json.dumps({"url": url, "key": f"{run}-{number}", "token": token, "body": json.loads(body)}).encode()
        for number in range(count)
    ]
    for begun in range(0, count, _ENQUEUED_AT_ONCE):
        part = messages[begun : begun + _ENQUEUED_AT_ONCE]
        await queries.enqueue(["post"] * len(part), list(part), [0] * len(part))
    await connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        uvloop.run(work(int(sys.argv[2])))
    else:
        uvloop.run(enqueue(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]))
