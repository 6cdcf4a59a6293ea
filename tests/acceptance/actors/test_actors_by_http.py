"""A broker with the URL of the API: sending, results, abort; and an API that does not answer."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dramatiq.errors import BrokerConnectionError
from dramatiq.results import ResultFailure, ResultMissing
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.acceptance.actors.conftest import Trial, User, trial_of
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def user(shared_user: User, shared_database: Database) -> Iterator[User]:
    key = api_keys.create(shared_database, "user", [Scope.ADMIN], None)
    shared_user.env |= {"BROKER_URL": shared_user.stack.url, "BROKER_KEY": key}
    os.environ["BROKER_KEY"] = key
    shared_user.stack.web()
    shared_user.worker()
    shared_user.process()
    eventually(lambda: shared_database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'other'")))
    yield shared_user
    del os.environ["BROKER_KEY"]


@pytest.fixture
def running(user: User, shared_database: Database) -> Trial:
    return trial_of(user, shared_database)


def test_messages_are_sent_with_delay_priority_and_results(running: Trial, tasks: Any) -> None:
    late = tasks.add.send_with_options(args=(1, 2), delay=300)
    with pytest.raises(ResultMissing):
        late.get_result()
    assert late.get_result(block=True) == 3
    assert tasks.add.send(3, 4).get_result(block=True) == 7
    with pytest.raises(ResultFailure, match="NotAgainError: no result"):
        tasks.fail_with_result.send().get_result(block=True)
    tasks.other.send("x")
    eventually(lambda: running.statuses() == {"SUCCESS": 3, "FAILED": 1})
    assert (tasks.add.message(5, 5) | tasks.add.message(1)).run().get_result(block=True) == 11


def test_ended_message_that_is_sent_again_is_reported(
    running: Trial, tasks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "task_executor_dramatiq")
    message = tasks.add.send(1, 2)
    assert message.get_result(block=True) == 3
    tasks.broker.enqueue(message)
    assert [f"message {message.message_id} is stored already" in line for line in caplog.messages] == [True]
    assert running.statuses() == {"SUCCESS": 1}


def test_aborted_actor_is_interrupted(running: Trial, tasks: Any, tmp_path: Path) -> None:
    message = tasks.hold.send(str(tmp_path / "never"))
    eventually(lambda: running.lines() == [f"hold {tmp_path / 'never'}"])
    tasks.broker.abort(message)
    eventually(lambda: running.statuses() == {"CANCELLED": 1})
    # The only threads are free again, which they are not while the actor holds one.
    for number in range(8):
        tasks.note.send(number)
    eventually(lambda: len(running.lines()) == 9)


def test_api_that_is_away_is_an_error(running: Trial, tasks: Any) -> None:
    """The last test of this module: it stops the processes."""
    tasks.note.send("a")
    eventually(lambda: running.lines() == ["note a"])
    running.user.stack.stop()
    with pytest.raises(BrokerConnectionError, match="does not answer"):
        tasks.note.send("b")
