"""The blocks of docs/how-to/actors.md, run as they are."""

import importlib
import json
import os
import sys
from pathlib import Path

import dramatiq
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from schema.url import database_url as parse_url
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.code_blocks import DOCS, blocks_of
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


def test_page_sends_runs_and_joins_a_transaction(
    user: User, api: Api, database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, setting_up, in_a_transaction, job, limits = (block for _, block in blocks_of(DOCS / "how-to" / "actors.md"))
    (tmp_path / "page_tasks.py").write_text(setting_up + limits)
    user.stack.web()
    user.worker()
    user.env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    user.process(module="page_tasks")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'add'")))
    for name in ("BROKER_URL", "TASK_EXECUTOR_ACTORS"):
        monkeypatch.setenv(name, user.env[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    page_tasks = importlib.import_module("page_tasks")

    with Session(create_engine(parse_url(database_url))) as session:
        exec(in_a_transaction, {"session": session, "broker": page_tasks.broker, "add": page_tasks.add})
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    api.post("/jobs", json.loads(job))
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert page_tasks.add.send(3, 4).get_result(block=True) == 7
    group = dramatiq.group([page_tasks.add.message(1, number) for number in range(2)])
    callback = page_tasks.add.message(5, 6)
    group.add_completion_callback(callback)
    group.run()
    assert callback.get_result(block=True) == 11
    with page_tasks.ledger.acquire(), page_tasks.ledger.acquire(raise_on_failure=False) as acquired_again:
        assert not acquired_again
    page_tasks.limits.close()
    page_tasks.broker.close()
    del sys.modules["page_tasks"]
    dramatiq.set_broker(None)
