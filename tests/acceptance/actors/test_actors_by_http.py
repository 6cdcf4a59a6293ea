"""A broker with the URL of the API: sending, results, abort; and an API that does not answer."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dramatiq.errors import BrokerConnectionError
from dramatiq.results import ResultFailure, ResultMissing
from sqlalchemy import text

from app.dev.stack.stack_client import Api
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def user(user: User, database: Database) -> Iterator[User]:
    key = api_keys.create(database, "user", [Scope.ADMIN], None)
    user.env |= {"BROKER_URL": user.stack.url, "BROKER_KEY": key}
    os.environ["BROKER_KEY"] = key
    user.stack.web()
    user.worker()
    user.process()
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'other'")))
    yield user
    del os.environ["BROKER_KEY"]


def test_messages_are_sent_with_delay_priority_and_results(user: User, tasks: Any, database: Database) -> None:
    late = tasks.add.send_with_options(args=(1, 2), delay=300)
    with pytest.raises(ResultMissing):
        late.get_result()
    assert late.get_result(block=True) == 3
    assert tasks.add.send(3, 4).get_result(block=True) == 7
    with pytest.raises(ResultFailure, match="NotAgainError: no result"):
        tasks.fail_with_result.send().get_result(block=True)
    tasks.other.send("x")
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 3, "FAILED": 1})
    assert (tasks.add.message(5, 5) | tasks.add.message(1)).run().get_result(block=True) == 11


def test_aborted_actor_is_interrupted(user: User, tasks: Any, database: Database, tmp_path: Path, api: Api) -> None:
    message = tasks.hold.send(str(tmp_path / "never"))
    eventually(lambda: user.lines() == [f"hold {tmp_path / 'never'}"])
    tasks.broker.abort(message)
    eventually(lambda: rows.statuses(database) == {"CANCELLED": 1})
    # The only threads are free again, which they are not while the actor holds one.
    for number in range(8):
        tasks.note.send(number)
    eventually(lambda: len(user.lines()) == 9)


def test_endpoint_that_is_unknown_or_an_api_that_is_away_is_an_error(user: User, tasks: Any) -> None:
    tasks.note.send("a")
    eventually(lambda: user.lines() == ["note a"])
    user.stack.stop()
    with pytest.raises(BrokerConnectionError, match="does not answer"):
        tasks.note.send("b")
