"""Page of extensions: its package runs as it stands there, in each process that it changes."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.feature import completion_handlers
from app.features import FEATURES
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.kernel.sql import REGISTRY
from app.queue.claiming.admission import OPEN
from app.queue.claiming.partition import Partition
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions.verdict import Verdict
from app.queue.reading.explanation import explain
from tests import rows
from tests.contract.scheduler.conftest import chores
from tests.integration.client import Api, running, services
from tests.integration.command_line import flask_app
from tests.integration.executions.worker import ERROR, WORKER, claim, end
from tests.integration.http import document

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "extend.md"
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
TABLE = next(block for language, block in BLOCKS if language == "sql")
NIGHT, DAY = datetime(2030, 1, 1, 23, tzinfo=UTC), datetime(2030, 1, 2, 7, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write the modules of the page and import the package; forget them afterwards."""
    document.document()  # of the application that all tests share, which must not have the feature
    folder = tmp_path_factory.mktemp("page")
    for block in (block for language, block in BLOCKS if language == "python"):
        path = folder / block.split("\n", 1)[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
    features, statements = [*FEATURES], {**REGISTRY}
    sys.path.insert(0, str(folder))
    importlib.import_module("service")
    yield folder
    sys.path.remove(str(folder))
    FEATURES[:] = features
    for name in REGISTRY.keys() - statements.keys():
        del REGISTRY[name]
    for name in [name for name in sys.modules if name.split(".")[0] == "service"]:
        del sys.modules[name]


@pytest.fixture
def failed(database: Database, folder: Path) -> str:
    """Fail an execution of an endpoint of text messages, and handle its end."""
    database.fetch(text(TABLE))
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    rows.add_endpoint(database, "text-otp")
    (execution_id,) = rows.add_executions(database, endpoint="text-otp")
    end(database, claim(database), Verdict.fail(ERROR))
    ends = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(ends).ends == 1
    return execution_id


def part(name: str) -> Any:
    return importlib.import_module(f"service.quiet_hours.{name}")


@pytest.mark.usefixtures("folder")
def test_rule_closes_only_text_messages_and_only_at_night() -> None:
    at_night, by_day = (part("admission").NightAdmission(lambda at=at: at) for at in (NIGHT, DAY))
    room = at_night.room(Partition(0, "text-otp", "", 100), 50.0)
    assert (room.slots, room.of_endpoint) == (0, True)
    assert isclose(room.closed_until, 50.0 + timedelta(hours=8).total_seconds())
    before_dawn = part("admission").NightAdmission(lambda: DAY - timedelta(seconds=1))
    assert isclose(before_dawn.room(Partition(0, "text-otp", "", 100), 50.0).closed_until, 51.0)
    assert at_night.room(Partition(0, "mail", "", 100), 50.0) == OPEN
    assert by_day.room(Partition(0, "text-otp", "", 100), 50.0) == OPEN
    assert [type(rule) for rule in FEATURES[-1].admission(None, 1)] == [type(at_night)]  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
def test_reason_explains_the_wait_until_the_morning(database: Database) -> None:
    rows.add_endpoint(database, "text-otp")
    (execution_id,) = rows.add_executions(database, endpoint="text-otp")
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)

    def reason(at: datetime) -> tuple[str, datetime | None]:
        reasons = [part("reasons").NightReason(lambda: at)]
        found = explain(database, execution_id, reclaim_every=timedelta(minutes=1), reasons=reasons)
        return found.reason, found.until

    assert reason(NIGHT) == ("NIGHT", DAY)
    assert reason(DAY) == ("NEXT_IN_QUEUE", None)


def test_handler_chore_and_operation_share_a_table(failed: str, database: Database, api: Api) -> None:
    (noted,) = database.fetch(text("SELECT * FROM failed_texts"))
    assert (noted.execution_id, noted.endpoint) == (failed, "text-otp")
    with running(services(api.app).settings) as app:
        answer = app.test_client().get("/failed-texts", headers={"Authorization": f"Bearer {api.key}"})
        assert answer.json == {"number": 1}
    assert chores(database).prune_failed_texts() == {"failed_texts": 0}
    database.fetch(text("UPDATE failed_texts SET ended_at = now() - INTERVAL '31 days'"))
    assert chores(database).prune_failed_texts() == {"failed_texts": 1}


def test_worker_scheduler_and_command_line_start_with_the_feature(folder: Path) -> None:
    done = flask_app("postgresql://nobody@127.0.0.1:1/none", "quiet-hours", app="service")
    assert re.fullmatch(r"day|night until 07:00 UTC", done.output.strip())
    script = "import runpy, service.worker; runpy.run_module('service.scheduler', run_name='__main__')"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "TE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "TE_STARTUP_TIMEOUT_SEC": "0.1",
    }
    started = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (started.returncode, "scheduler: " in started.stderr) == (1, True), started.stderr
