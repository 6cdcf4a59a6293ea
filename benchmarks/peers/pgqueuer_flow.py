"""pgqueuer with many entrypoints: `python -m benchmarks.peers.pgqueuer_flow work 200 10 200`.

The numbers are: entrypoints, concurrent deliveries of an entrypoint over all processes (0: no limit), and concurrent
deliveries of a process. `work` runs two processes; `enqueue FILE` and `clear FILE` execute a plan.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.peers.pgqueuer_peer import post

_PROCESSES = 2
_BATCH = 100
_AT_ONCE = 1000
_TIMEOUT_SECONDS = 30  # default timeout of the product's endpoints


async def _work(entrypoints: int, limit: int, slots: int) -> None:
    """Deliver until SIGTERM."""
    connection = await asyncpg.connect(os.environ["PGDSN"])
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        pgq = PgQueuer(AsyncpgDriver(connection), resources={"session": session})
        for number in range(entrypoints):
            pgq.entrypoint(f"post-{number}", concurrency_limit=limit)(post)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pgq.shutdown.set)
        print("ready", flush=True)
        await pgq.run(batch_size=_BATCH, max_concurrent_tasks=slots)


def _work_in_one(*numbers: int) -> None:
    uvloop.run(_work(*numbers))


def _work_in_all(*numbers: int) -> None:
    """Run all processes, and end them with SIGTERM."""
    processes = [multiprocessing.Process(target=_work_in_one, args=numbers) for _ in range(_PROCESSES)]
    for process in processes:
        process.start()
    signal.signal(signal.SIGTERM, lambda *_: [process.terminate() for process in processes])
    for process in processes:
        process.join()


async def _enqueue(plan: dict[str, Any]) -> dict[str, dict[str, float]]:
    connection = await asyncpg.connect(os.environ["PGDSN"])
    queries, run = Queries(AsyncpgDriver(connection)), os.urandom(4).hex()
    due: dict[str, dict[str, float]] = {stream["url"]: {} for stream in plan["streams"]}
    jobs = [
        (stream["first"] + each * stream["apart"], stream["entrypoint"], stream["url"], f"{run}-{number}-{each}")
        for number, stream in enumerate(plan["streams"])
        for each in range(stream["count"])
    ]
    jobs.sort()
    for instant, _entrypoint, url, key in jobs:
        due[url][key] = instant
    message = {"body": plan["body"], "token": plan["token"]}
    for begun in range(0, len(jobs), _AT_ONCE):
        part, now = jobs[begun : begun + _AT_ONCE], time.time()
        await queries.enqueue(
            [entrypoint for _, entrypoint, _, _ in part],
            [json.dumps(message | {"url": url, "key": key}).encode() for _, _, url, key in part],
            [plan["priority"]] * len(part),
            [timedelta(seconds=instant - now) for instant, _, _, _ in part],
        )
    await connection.execute("ANALYZE")
    await connection.close()
    return due


async def _clear(_plan: dict[str, Any]) -> None:
    connection = await asyncpg.connect(os.environ["PGDSN"])
    await connection.execute("TRUNCATE pgqueuer, pgqueuer_log")
    await connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        _work_in_all(*map(int, sys.argv[2:]))
    else:
        run = {"enqueue": _enqueue, "clear": _clear}[sys.argv[1]]
        print(json.dumps(asyncio.run(run(json.loads(Path(sys.argv[2]).read_text())))))
