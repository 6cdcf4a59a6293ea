"""Plain Dramatiq over Redis with `requests`, as one would write it: `dramatiq benchmarks.peers.dramatiq_peer`."""

import json
import os
import sys
import threading

import dramatiq
import requests
from dramatiq.brokers.redis import RedisBroker

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


def enqueue(url: str, count: int, body: str, token: str) -> None:
    """Fill the queue."""
    run = os.urandom(4).hex()
    for number in range(count):
        post.send(url, f"{run}-{number}", json.loads(body), token)


if __name__ == "__main__":
    enqueue(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
