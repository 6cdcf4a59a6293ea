"""Calls of Python functions that a message makes in the worker, from its claim to its stored end."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import dramatiq
import pytest
from dramatiq import Worker
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.catalog.endpoints.actor_endpoints import register
from app.kernel.config import Settings
from app.kernel.db import Database
from brokers.consumer import DELIVER
from tests.actor_process import answer
from tests.enqueueing import adopt_settings
from tests.job_costs import Calls, own_log
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql_only
TOGETHER, ROUNDS = 100, 5
MAX_CALLS = 126
ENQUEUE = text("SELECT te_enqueue('mail', '{\"args\": [], \"options\": {}}') FROM generate_series(1, :count)")
UNFINISHED = text("SELECT 1 FROM executions WHERE completed_at IS NULL LIMIT 1")


@contextmanager
def listening(url: str, sockets: Path, calls: Calls) -> Iterator[Path]:
    """Run a worker that listens to processes with actors, and counts its calls."""
    settings = Settings(database_url=url, worker_poll_interval_ms=100, actors_listen=str(sockets))
    threading.setprofile(calls.note)
    broker, deliveries = build(settings)
    dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="actor")
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    threading.setprofile(None)  # type: ignore[arg-type]
    try:
        eventually(lambda: [*sockets.glob("*.sock")])
        yield next(sockets.glob("*.sock"))
    finally:
        worker.stop()


def test_message_makes_few_calls_from_its_claim_to_its_stored_end(database: Database, database_url: str) -> None:
    adopt_settings(database)
    register(database, [{"name": "mail"}])
    calls, counts = Calls(), list[Counter[str]]()
    with (
        own_log(),
        TemporaryDirectory(prefix="te-") as sockets,  # short: a path of a socket is
        listening(database_url, Path(sockets), calls) as path,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(answer, path, TOGETHER, ROUNDS)
        for _ in range(ROUNDS):
            calls.counts, calls.is_counting = Counter(), True
            database.fetch(ENQUEUE, {"count": TOGETHER})
            eventually(lambda: not database.fetch(UNFINISHED))
            calls.is_counting = False
            counts.append(calls.counts)
    running.result()
    assert min(each.total() for each in counts) // TOGETHER <= MAX_CALLS
