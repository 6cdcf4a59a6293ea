"""The blocks of docs/how-to/extend-actors.md, run as they are: a handler without Dramatiq, and a broker."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from sqlalchemy import text

from app.dev.process.child import Child
from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.code_blocks import DOCS, blocks_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the modules of the page."""
    for _, block in blocks_of(DOCS / "how-to" / "extend-actors.md"):
        (tmp_path / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("failover", None)


@pytest.fixture
def handler(user: User, modules: Path, database: Database) -> Iterator[Child]:
    """The handler of the page beside a worker; its endpoint exists."""
    user.stack.web()
    user.worker()
    command = [sys.executable, str(modules / "handler.py"), str(user.sockets)]
    child = Child("handler", command, log=modules / "handler.log", env={}, cwd=modules)
    child.start()
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'resize'")), what="the endpoint")
    yield child
    child.kill()


@pytest.mark.usefixtures("handler")
def test_handler_runs_jobs_and_reports_its_errors(user: User, database: Database) -> None:
    def created(given: Any) -> str:
        body = {"endpoint": "resize", "trigger": "IMMEDIATE", "input": given, "idempotency_key": str(given)}
        execution_id: str = user.stack.api.post("/jobs", body)["execution"]["execution_id"]
        return execution_id

    done, failed = created({"width": 640}), created({"height": 480})
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1, "FAILED": 1})
    api = user.stack.api
    assert api.get(f"/executions/{done}/result")["output"]["body"] == {"width": 320}
    assert api.get(f"/executions/{failed}/result")["error"]["type"] == "KeyError"


@pytest.mark.usefixtures("handler")
def test_broker_sends_by_the_database_while_the_api_does_not_answer(user: User, database: Database) -> None:
    failover = importlib.import_module("failover")
    database_url = user.env["BROKER_URL"]
    broker = failover.FailoverBroker(url="http://127.0.0.1:9", key="unused", database_url=database_url)
    resize = dramatiq.actor(lambda width: None, actor_name="resize", broker=broker)
    resize.send(width=640)
    broker.close()
    (execution,) = database.fetch(text("SELECT endpoint FROM executions"))
    assert execution.endpoint == "resize"
