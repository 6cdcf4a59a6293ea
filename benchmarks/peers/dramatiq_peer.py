"""Plain Dramatiq over Redis with `requests`, in the usual way: `dramatiq benchmarks.peers.dramatiq_peer`."""

import os
import threading

import dramatiq
import requests
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import command
from benchmarks.peers.command import Message

broker = RedisBroker(url=os.environ["BENCH_REDIS_URL"])
dramatiq.set_broker(broker)

_local = threading.local()


@dramatiq.actor(max_retries=3)
def post(url: str, key: str, body: dict[str, object], token: str) -> None:
    """POST a body; one session with kept connections for each thread."""
    session = getattr(_local, "session", None)
    if session is None:
        session = _local.session = requests.Session()
    headers = {"Idempotency-Key": key, "Authorization": f"Bearer {token}"}
    session.post(url, json=body, headers=headers, timeout=5).raise_for_status()


class Queue(command.Queue):
    """Client of Dramatiq."""

    async def send(self, message: Message, delay: float | None = None) -> None:
        post.send_with_options(kwargs=message, delay=None if delay is None else round(delay * 1000))


if __name__ == "__main__":
    command.main(Queue())
