"""Full disk of the database: requests are refused in time, results are kept, and work resumes with free space."""

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import sql

from app.dev.receiver import Receiver
from app.dev.servers import Postgres
from app.kernel import db
from schema import migrate
from schema.tables import metadata
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.acceptance.load import Load, check_deliveries
from tests.servers import start_or_skip

pytestmark = pytest.mark.acceptance

RETRIES = {"max_attempts": 3, "backoff": "fixed", "initial_delay_ms": 100}


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with start_or_skip(Postgres()) as server:
        yield server


@pytest.fixture
def small_disk(postgres: Postgres) -> Iterator[Path]:
    """A folder of 16 MB that PostgreSQL can write to; the fixture needs the privilege to mount."""
    mount_point = postgres.directory / "small"
    mount_point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount_point], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk: {mounted.stderr.strip()}")
    try:
        tables = mount_point / "tables"
        tables.mkdir()
        owner = (postgres.directory / "data").stat()
        os.chown(tables, owner.st_uid, owner.st_gid)
        yield tables
    finally:
        subprocess.run(["umount", "--lazy", mount_point], check=True)


def test_full_disk_refuses_jobs_and_keeps_results_until_there_is_space(
    postgres: Postgres, small_disk: Path, receiver: Receiver, tmp_path: Path
) -> None:
    path = "/echo/full"
    migrate.upgrade(postgres.url)
    with ExitStack() as opened:
        database = opened.enter_context(closing(db.connect(postgres.url, pool_size=2, application_name="test")))
        move_tables(postgres.url, small_disk)
        spec = {"url": f"{receiver.base_url}{path}", "method": "POST", "body_template": {"text": "{{input.text}}"}}
        rows.add_endpoint(database, spec=spec, retry_policy=RETRIES)
        stack = opened.enter_context(stack_over(postgres.url, tmp_path))
        stack.web()
        worker = stack.worker()
        stack.scheduler()
        # Random text, because compressible text would fit into existing pages.
        with Load(stack.api, "target", input_={"text": secrets.token_hex(8_000)}) as load:
            load.wait_for_more()
            filler = small_disk.parent / "filler"
            fill(filler)
            load.wait_for_refusals(3)
            filler.unlink()
            load.wait_for_more()
        assert {answer.code for answer in load.refusals} == {"SERVICE_UNAVAILABLE"}
        check_deliveries(database, receiver, path, load.accepted)
        assert worker.is_running, worker.tail()


def move_tables(url: str, directory: Path) -> None:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(directory))))
        for table in metadata.sorted_tables:
            cursor.execute(sql.SQL("ALTER TABLE {} SET TABLESPACE small").format(sql.Identifier(table.name)))


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
