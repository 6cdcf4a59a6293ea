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
from tests.acceptance.actors.conftest import Trial, User, trial_of
from tests.code_blocks import DOCS, blocks_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the modules of the page."""
    folder = tmp_path_factory.mktemp("page")
    for _, block in blocks_of(DOCS / "how-to" / "extend-actors.md"):
        (folder / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)
    return folder


@pytest.fixture(scope="module")
def user(shared_user: User, modules: Path, shared_database: Database) -> Iterator[User]:
    """A user with a web process, a worker and the handler of the page, whose endpoint exists."""
    shared_user.stack.web()
    shared_user.worker()
    command = [sys.executable, str(modules / "handler.py"), str(shared_user.sockets)]
    child = Child("handler", command, log=modules / "handler.log", env={}, cwd=modules)
    child.start()
    wanted = text("SELECT 1 FROM endpoints WHERE name = 'resize'")
    eventually(lambda: shared_database.fetch(wanted), what="the endpoint")
    yield shared_user
    child.kill()


@pytest.fixture
def trial(user: User, shared_database: Database) -> Trial:
    return trial_of(user, shared_database)


def test_handler_runs_jobs_and_reports_its_errors(user: User, trial: Trial) -> None:
    def created(given: Any) -> str:
        body = {"endpoint": "resize", "trigger": "IMMEDIATE", "input": given, "idempotency_key": str(given)}
        execution_id: str = user.stack.api.post("/jobs", body)["execution"]["execution_id"]
        return execution_id

    done, failed = created({"width": 640}), created({"height": 480})
    eventually(lambda: trial.statuses() == {"SUCCESS": 1, "FAILED": 1})
    api = user.stack.api
    assert api.get(f"/executions/{done}/result")["output"]["body"] == {"width": 320}
    assert api.get(f"/executions/{failed}/result")["error"]["type"] == "KeyError"


def test_broker_sends_by_the_database_while_the_api_does_not_answer(
    user: User, trial: Trial, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(modules))
    failover = importlib.import_module("failover")
    database_url = user.env["BROKER_URL"]
    broker = failover.FailoverBroker(url="http://127.0.0.1:9", key="unused", database_url=database_url)
    resize = dramatiq.actor(lambda width: None, actor_name="resize", broker=broker)
    resize.send(width=640)
    broker.close()
    del sys.modules["failover"]
    assert len(trial.executions_of("resize")) == 1
