"""The yardstick: what one would write with plain Dramatiq and Redis. `dramatiq benchmarks.baseline`."""

import os
import threading

import dramatiq
import requests
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379"))
dramatiq.set_broker(broker)

_local = threading.local()


@dramatiq.actor(max_retries=3)
def post(url: str, key: str, body: dict[str, object]) -> None:
    """POST a body, as our HTTP deliveries do; one keep-alive session per thread."""
    session = getattr(_local, "session", None)
    if session is None:
        session = _local.session = requests.Session()
    response = session.post(url, json=body, headers={"Idempotency-Key": key}, timeout=5)
    response.raise_for_status()
