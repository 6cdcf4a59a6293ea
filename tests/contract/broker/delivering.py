"""What a worker has of a delivery: an attempt that a consumer claimed, and the catalogue that it is prepared from."""

from app.catalog.crypto import SecretBox
from app.catalog.loader import Catalog
from app.db import Database
from brokers.attempt import Attempt
from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess


def next_attempt(consumer: ClaimConsumer) -> Attempt:
    message = next(consumer)
    assert message is not None
    attempt: Attempt = message.args[0]
    return attempt


def claimed(process: WorkerProcess, queue: str = "http") -> Attempt:
    return next_attempt(ClaimConsumer(process, queue, 60_000))


def catalog_of(database: Database, box: SecretBox | None = None) -> Catalog:
    return Catalog(database, box, config_ttl_seconds=60, secret_ttl_seconds=60)
