"""Limits of an actor's endpoint, by the row of docs/how-to/celery.md, like Dramatiq's rate limiters over Redis."""

import json
import re
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.code_blocks import DOCS
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

(BODY,) = re.findall(r"`PATCH /endpoints/\{name\}` with `(.*?)`", (DOCS / "how-to/celery.md").read_text())


def test_rate_of_an_actor_holds_over_its_processes_and_costs_no_attempt(
    user: User, tasks: Any, database: Database
) -> None:
    user.stack.web()
    user.worker()
    for _ in range(2):
        user.process(threads=4)
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'note'")))
    user.stack.api.request("PATCH", "/endpoints/note", json=json.loads(BODY)).raise_for_status()
    for number in range(12):
        tasks.note.send(number)
    eventually(lambda: rows.statuses(database).get("SUCCESS") == 10, what="the messages of a minute")
    (waiting, *_) = database.fetch(text("SELECT execution_id, attempt_count FROM executions WHERE status = 'QUEUED'"))
    explained = user.stack.api.get(f"/executions/{waiting.execution_id}/explain")
    assert ("RATE" in explained["reason"], waiting.attempt_count) == (True, 0)
    assert len(user.lines()) == 10
