"""Marks of the outbox chore: a run reads each shard from the end of the last run; no event stays behind a mark."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.processes import worker_lease
from app.queue.ending.handler import Handler
from app.queue.executions.watermark import ScanPace
from app.scheduler.chore import ChoreContext
from app.scheduler.outbox_chore import Outbox
from tests import rows
from tests.claiming import AT_ONCE, NEVER
from tests.contract.ending.following import claimed, complete_claims, counting_handler, make_due
from tests.contract.races.racing import never

WORKER = "wrk_1"


@pytest.fixture
def worker(database: Database) -> str:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    return WORKER


def outbox(database: Database, handler: Handler, *, scan_pace: ScanPace = NEVER) -> Outbox:
    settings = Settings(database_url="", queue_shards=2)
    context = ChoreContext(database, settings, hint=lambda _queue: None, stopping=never, scan_pace=scan_pace)
    return Outbox(context, [handler])


def starts(database: Database) -> list[Any]:
    """Return the list that receives, for each later run, the starts of its shards."""
    found: list[Any] = []

    def record(_connection: Any, _cursor: Any, statement: str, params: Any, *_: Any) -> None:
        if "AS beyond" in statement:
            found.append(dict(zip(params["shards"], params["since"], strict=True)))

    event.listen(database.engine, "before_cursor_execute", record)
    return found


def left_events(database: Database, worker: str, count: int, *, shard: int = 0) -> list[str]:
    """Complete executions of a shard whose events nobody has handled for two seconds."""
    left = complete_claims(database, claimed(database, worker, count))
    change = text("UPDATE execution_ends SET shard = :shard WHERE end_id = ANY (:ids)")
    database.fetch(change, {"shard": shard, "ids": left})
    make_due(database)
    return left


def test_next_run_reads_no_shard_from_its_front(database: Database, worker: str) -> None:
    """On CockroachDB the entries of handled events stay in the index for minutes."""
    chore, read = outbox(database, counting_handler(database)), starts(database)
    left_events(database, worker, 3)
    assert chore.handle()["ends"] == 3
    assert chore.handle()["ends"] == 0
    first, second = read
    assert first == {0: EPOCH, 1: EPOCH}
    assert second.keys() == {0, 1}
    assert min(second.values()) > rows.database_now(database) - timedelta(hours=1)


def test_shard_that_no_setting_names_is_read_and_then_has_a_mark(database: Database, worker: str) -> None:
    chore, read = outbox(database, counting_handler(database)), starts(database)
    left_events(database, worker, 2, shard=7)
    left_events(database, worker, 1, shard=9)
    assert chore.handle()["ends"] == 3
    assert chore.handle()["ends"] == 0
    assert read[-1].keys() == {0, 1, 7, 9}
    assert EPOCH not in read[-1].values()


def test_failed_event_stays_in_front_of_the_mark(database: Database, worker: str) -> None:
    """A run may end before it has retried all failed events."""
    chore, read = outbox(database, counting_handler(database)), starts(database)
    left_events(database, worker, 1)
    due_at = rows.database_now(database) - timedelta(hours=1)
    database.fetch(text("UPDATE execution_ends SET tries = 1, due_at = :at"), {"at": due_at})
    assert chore.handle()["ends"] == 1
    chore.handle()
    assert read[-1][0] <= due_at < read[-1][1]


def test_event_behind_the_mark_is_found_by_the_full_scan(database: Database, worker: str) -> None:
    """Its writer has held it locked for longer than the slack, and died."""
    chore = outbox(database, counting_handler(database), scan_pace=AT_ONCE)
    chore.handle()
    left_events(database, worker, 1)
    database.fetch(text("UPDATE execution_ends SET due_at = now() - INTERVAL '1 minute'"))
    assert chore.handle()["ends"] == 1
