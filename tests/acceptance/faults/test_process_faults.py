"""Processes killed, frozen or signalled twice: other processes continue, and their work is repeated as documented."""

import contextlib
import itertools
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.dev.process.child import family, freeze, signal_all
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.acceptance.load import Load, check_deliveries
from tests.cron_jobs import add_interval_job
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

TERM_APART_SECONDS = 2.5  # longer than the window in which two signals count as one TERM


def is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def worker_ids(database: Database, pid: int) -> set[str]:
    found = database.fetch(text("SELECT worker_id FROM workers WHERE pid = :pid"), {"pid": pid})
    return {row.worker_id for row in found}


def test_second_term_ends_a_worker_at_once(database: Database, stack: Stack, receiver: Receiver) -> None:
    """The delivery is reclaimed as after a kill."""
    path = "/hang/two-terms"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 60_000})
    worker = stack.worker(**SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, 1)
    receiver.wait_for(1, path=path)
    worker.send(signal.SIGTERM)
    stack.wait_for_line(worker, "Stopping worker process")
    time.sleep(TERM_APART_SECONDS)
    assert worker.is_running, "the first TERM did not wait for the delivery"
    worker.send(signal.SIGTERM)
    assert worker.wait(ENDED_SECONDS) not in {None, 0}, worker.tail()
    stack.scheduler(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"RETRYING": 1})
    assert [attempt.error["type"] for attempt in rows.attempts(database, execution_id)] == ["WORKER_LOST"]


def test_killed_child_ends_its_worker_and_only_the_child_attempts_are_repeated(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    path = "/held/killed-child"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 20_000})
    worker = stack.worker(processes=2, threads=2, TE_WORKER_MAX_CONCURRENT="3", **SHORT_LEASE)
    executions = rows.add_executions(database, 6, max_attempts=2)
    receiver.wait_for(6, path=path)
    (victim, *_) = [pid for pid in family(worker.pid)[1:] if worker_ids(database, pid)]
    os.kill(victim, signal.SIGKILL)
    stack.wait_for_line(worker, "exited unexpectedly")
    receiver.release(path)
    assert worker.wait(ENDED_SECONDS) not in {None, 0}, worker.tail()
    lost = worker_ids(database, victim)
    stack.scheduler(**SHORT_LEASE)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 6})
    repeated = 0
    for execution_id in executions:
        first, *more = rows.attempts(database, execution_id)
        assert bool(more) is (first.worker_id in lost)
        repeated += bool(more)
    assert repeated == 3


def test_every_tick_runs_once_while_schedulers_freeze_and_die(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    path = "/ok/every-tick"
    rows.add_endpoint(database, spec={"url": receiver.base_url + path, "method": "POST"})
    stack.worker()
    settings = {"TE_LOOK_AHEAD_SEC": "1", "TE_CRON_TICK_INTERVAL_SEC": "0.1"}
    frozen, killed = stack.scheduler(**settings), stack.scheduler(**settings)
    for scheduler in (frozen, killed):
        stack.wait_for_line(scheduler, "scheduler started")
    job_id = add_interval_job(database, timedelta(seconds=1))
    receiver.wait_for(1, path=path)
    freeze(frozen.pid)
    before = len(receiver.wait_for(0, path=path))
    receiver.wait_for(before + 2, path=path)
    os.kill(killed.pid, signal.SIGKILL)
    signal_all(family(frozen.pid), signal.SIGCONT)
    before = len(receiver.wait_for(0, path=path))
    receiver.wait_for(before + 3, path=path)
    assert frozen.is_running
    cancel_job(database, job_id, actor=None)
    sent = [request.idempotency_key for request in receiver.wait_for(0, path=path)]
    ticks = database.fetch(text("SELECT execution_id, scheduled_at, started_at FROM executions ORDER BY scheduled_at"))
    assert len(sent) == len(set(sent)) <= len(ticks), (
        sent,
        ticks,
        database.fetch(text(f"SELECT * FROM {ALL_ATTEMPTS} AS tried")),
    )
    gaps = {later.scheduled_at - earlier.scheduled_at for earlier, later in itertools.pairwise(ticks)}
    assert gaps == {timedelta(seconds=1)}, "a tick is missing or repeated"


def test_api_frozen_and_killed_under_load_loses_no_job(
    database: Database, stack: Stack, api: Api, receiver: Receiver
) -> None:
    path = "/ok/api"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
    web = stack.web()
    stack.worker()
    with Load(api, "target") as load:
        load.wait_for_more()
        freeze(web.pid)
        time.sleep(1)  # duration of the fault
        signal_all(family(web.pid), signal.SIGCONT)
        load.wait_for_more()
        signal_all(family(web.pid)[1:], signal.SIGKILL)
        load.wait_for_more()
    assert check_deliveries(database, receiver, path, load.accepted) == 0
    assert rows.statuses(database) == {"SUCCESS": len(load.accepted)}, "a repeated request created a second job"
    assert web.is_running
    children = family(web.pid)[1:]
    os.kill(web.pid, signal.SIGKILL)
    eventually(lambda: not any(is_alive(pid) for pid in children), what="the end of the API's child processes")
