"""taskiq over a Redis stream, with acknowledgements: `taskiq worker benchmarks.peers.taskiq_peer:broker`.

taskiq has delayed messages only with a scheduler that polls once a second, so its lateness is not measured.
"""

import os

import aiohttp
from taskiq import TaskiqEvents, TaskiqState
from taskiq_redis import RedisStreamBroker

from benchmarks.peers import command
from benchmarks.peers.command import Message

_CONNECTIONS = 200

# Start from the first message, so that messages sent before the workers started count too. taskiq's processes queue for
# a lock after each read, so reads of more than the default of a hundred messages are faster.
broker = RedisStreamBroker(url=os.environ["BENCH_REDIS_URL"], consumer_id="0", xread_count=1000)


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def _open(state: TaskiqState) -> None:
    state.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS))


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def _close(state: TaskiqState) -> None:
    await state.session.close()


@broker.task(task_name="post")
async def post(url: str, key: str, body: dict[str, object], token: str) -> None:
    """POST a body; one session with kept connections for each process."""
    headers = {"Idempotency-Key": key, "Authorization": f"Bearer {token}"}
    async with broker.state.session.post(url, json=body, headers=headers) as response:
        await response.read()
        response.raise_for_status()


class Queue(command.Queue):
    """Client of taskiq."""

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def send(self, message: Message, delay: float | None = None) -> None:
        if delay is not None:
            raise NotImplementedError
        await post.kiq(**message)


if __name__ == "__main__":
    command.main(Queue())
