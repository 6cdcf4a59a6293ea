"""Requests by aiohttp without a queue, a hundred at once: the maximum throughput of the stack.

`enqueue` writes the task to a file, which `work` reads in each of two processes.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
import uvloop

_AT_ONCE = 100
_PROCESSES = 2


def _file() -> Path:
    return Path(os.environ["BENCH_SCRATCH"]) / "aiohttp.json"


async def work() -> None:
    """Send half of the requests, then wait for the end of the process."""
    task = json.loads(_file().read_text())
    keys = iter([f"{os.getpid()}-{number}" for number in range(-(-task["count"] // _PROCESSES))])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_AT_ONCE)) as session:

        async def send() -> None:
            for key in keys:
                headers = {"Idempotency-Key": key, "Authorization": f"Bearer {task['token']}"}
                async with session.post(task["url"], json=task["body"], headers=headers) as response:
                    await response.read()

        await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        uvloop.run(work())
    else:
        _, _, url, count, body, token = sys.argv
        given = {"url": url, "count": int(count), "body": json.loads(body), "token": token}
        _file().write_text(json.dumps(given))
