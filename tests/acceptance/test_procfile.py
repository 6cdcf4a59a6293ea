"""Start in production: `honcho start`."""

import os
import shlex
import signal
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from app.dev.process.child import family
from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel import db
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from schema import migrate
from tests.acceptance.jobs import deliver_one
from tests.cases import choice_of

pytestmark = pytest.mark.acceptance

MAX_CONNECTIONS = 26  # 14 on a quiet machine; where statements take longer, more of them are sent at once
CONNECTIONS = text(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'te-%'"
)
# Search path of the Procfile's commands.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def connections(database_url: str) -> int:
    """Return the number of connections of all processes of the product."""
    with closing(db.connect(database_url, pool_size=1, application_name="test")) as database:
        return int(database.fetch(CONNECTIONS)[0].n)


def test_procfile_has_the_commands_of_the_development_stack() -> None:
    lines = dict(line.split(": ", 1) for line in Path("Procfile").read_text().splitlines())
    commands = {name: tuple(shlex.split(line)) for name, line in lines.items()}
    assert commands == {
        "web": programs.WEB,
        "worker": programs.worker(processes=2, threads=8),
        "scheduler": ("python", "-m", *programs.SCHEDULER),
    }


@pytest.mark.sampled
@pytest.mark.postgresql_only
def test_honcho_runs_every_process_and_one_signal_stops_all(
    empty_database_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    """Honcho itself gets the signal, and stops the processes by TERM in either case."""
    stack = Stack(database_url=empty_database_url, commands={}, env={"PATH": PATH}, logs=tmp_path)
    migrate.upgrade(empty_database_url)
    with closing(db.connect(empty_database_url, pool_size=1, application_name="test")) as database:
        key = api_keys.create(database, "ops", [Scope.ADMIN, Scope.JOBS_WRITE], None)
    with closing(Api(stack.url, key)) as api:
        for number in choice_of((signal.SIGINT, signal.SIGTERM), 2):
            honcho = stack.launch(f"honcho-{number.name}", ("tests.acceptance.patient_honcho", "start"))
            try:
                stack.wait_until_ready()
                path = deliver_one(api, receiver, f"honcho-{number.name.lower()}")
                members = [psutil.Process(pid) for pid in family(honcho.pid)[1:]]
                assert len(members) >= 5, "a process of web, worker or scheduler is missing"
                assert connections(empty_database_url) <= MAX_CONNECTIONS
                os.kill(honcho.pid, number)
                assert honcho.wait(60) is not None, "honcho did not end after one signal"
                _, alive = psutil.wait_procs(members, timeout=60)
                assert alive == []
                assert "SIGKILL" not in honcho.log.read_text(), "honcho had to kill a process"
            finally:
                stack.kill(honcho.name)
            assert len(receiver.wait_for(1, path=path)) == 1
