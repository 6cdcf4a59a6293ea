"""Celery over Redis: `celery -A benchmarks.peers.celery_peer worker`.

Tasks are acknowledged after the run, the most durable option. As Celery advises for throughput, many short tasks are
prefetched and results are ignored, except by chords, which need them.
"""

import os
import sys

import requests
from celery import Celery, chain, chord
from celery.signals import worker_process_init

from benchmarks.peers import command
from benchmarks.peers.command import Message

_URL = os.environ["BENCH_REDIS_URL"]
app = Celery("benchmarks.peers.celery_peer", broker=_URL, backend=_URL)
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


class Starter(command.Starter):
    """Client of Celery's canvas."""

    def start(self, name: str, messages: list[Message]) -> None:
        tasks = [post.si(**message).set(ignore_result=False) for message in messages]
        if name == "fan":
            chain(tasks[0], chord(tasks[1:-1], tasks[-1])).apply_async()
        else:
            chain(*tasks).apply_async()


if __name__ == "__main__":
    if sys.argv[1] in {"fan", "chain"}:
        command.start(Starter())
    else:
        command.main(Queue())
