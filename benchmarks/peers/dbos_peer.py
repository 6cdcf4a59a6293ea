"""DBOS on PostgreSQL: `python -m benchmarks.peers.dbos_peer work NAME` starts an executor.

A workflow with a step for the first and the last delivery; the deliveries between are enqueued, as DBOS advises for
fan-outs. Queues and results are polled every 50 ms instead of every second. An executor that is started again under
its name recovers the workflows that it had.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import aiohttp
from dbos import DBOS, DBOSClient, DBOSConfig

from benchmarks.peers import command
from benchmarks.peers.command import Message

_CONNECTIONS = 200
_POLL_SECONDS = 0.05
_VERSION = "1"

_kept: dict[str, aiohttp.ClientSession] = {}


@DBOS.step(name="post")
async def post(message: Message) -> None:
    """POST the body of a message."""
    if "session" not in _kept:
        _kept["session"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS))
    headers = {"Idempotency-Key": message["key"], "Authorization": f"Bearer {message['token']}"}
    async with _kept["session"].post(message["url"], json=message["body"], headers=headers) as response:
        await response.read()
        response.raise_for_status()


@DBOS.workflow(name="fan")
async def fan(messages: list[Message]) -> None:
    """Deliver the first message, then the others at once, then the last."""
    await post(messages[0])
    steps = await DBOS.retrieve_queue_async("steps")
    handles = [await steps.enqueue_async(post, message) for message in messages[1:-1]]
    for handle in handles:
        await handle.get_result(polling_interval_sec=_POLL_SECONDS)
    await post(messages[-1])


@DBOS.workflow(name="chain")
async def chain(messages: list[Message]) -> None:
    """Deliver the messages one after the other, each by the queue."""
    steps = await DBOS.retrieve_queue_async("steps")
    for message in messages:
        await (await steps.enqueue_async(post, message)).get_result(polling_interval_sec=_POLL_SECONDS)


async def prepare() -> None:
    """Create the tables and queues."""
    _launch("prepare")
    await DBOS.register_queue_async("steps", worker_concurrency=_CONNECTIONS, polling_interval_sec=_POLL_SECONDS)
    await DBOS.register_queue_async("flows", polling_interval_sec=_POLL_SECONDS)
    DBOS.destroy()


async def work(name: str) -> None:
    """Execute workflows and steps until SIGTERM."""
    _launch(name)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    print("ready", flush=True)
    await stopping.wait()
    DBOS.destroy(workflow_completion_timeout_sec=5)


def _launch(name: str) -> None:
    settings: dict[str, Any] = {"system_database_url": os.environ["DBOS_URL"], "log_level": "WARNING"}
    DBOS(config=DBOSConfig(name="bench", application_version=_VERSION, executor_id=name, **settings))
    DBOS.launch()


class Starter(command.Starter):
    """Client of DBOS."""

    def start(self, name: str, messages: list[Message]) -> None:
        client = DBOSClient(system_database_url=os.environ["DBOS_URL"])
        client.enqueue({"workflow_name": name, "queue_name": "flows", "app_version": _VERSION}, messages)
        client.destroy()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        asyncio.run(prepare())
    elif sys.argv[1] == "work":
        asyncio.run(work(sys.argv[2]))
    else:
        command.start(Starter())
