"""Celery over Redis: `celery -A benchmarks.peers.celery_peer worker`.

Tasks are acknowledged after the run, the most durable option. As Celery advises for throughput, many short tasks are
prefetched and results are ignored.
"""

import os

import requests
from celery import Celery
from celery.signals import worker_process_init

from benchmarks.peers import command
from benchmarks.peers.command import Message

app = Celery("benchmarks.peers.celery_peer", broker=os.environ["BENCH_REDIS_URL"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
_kept: dict[str, requests.Session] = {}


@worker_process_init.connect
def _open(**_: object) -> None:
    _kept["session"] = requests.Session()


@app.task(name="post")
def post(url: str, key: str, body: dict[str, object], token: str) -> None:
    """POST a body; one session with kept connections for each process."""
    headers = {"Idempotency-Key": key, "Authorization": f"Bearer {token}"}
    _kept["session"].post(url, json=body, headers=headers, timeout=5).raise_for_status()


class Queue(command.Queue):
    """Client of Celery."""

    async def send(self, message: Message, delay: float | None = None) -> None:
        post.apply_async(kwargs=message, countdown=delay)


if __name__ == "__main__":
    command.main(Queue())
