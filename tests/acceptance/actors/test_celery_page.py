"""The blocks of docs/how-to/celery.md about actors, run as they are, and what its table says about limits and ends."""

import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import dramatiq
import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.acceptance.actors.conftest import User
from tests.code_blocks import DOCS, blocks_of
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

_BEFORE, MODULE, CALLS, _HTTP = (block for _, block in blocks_of(DOCS / "how-to" / "celery.md"))
LONG_TASK = """

@dramatiq.actor(actor_class=CeleryActor, store_results=True, time_limit=200, max_retries=0)
def resize():
    import time

    try:
        while True:
            time.sleep(0.01)
    except dramatiq.middleware.TimeLimitExceeded:
        return "cleaned up"


@dramatiq.actor(actor_class=CeleryActor, max_retries=5, min_backoff=1, max_backoff=1)
def fail():
    raise ConnectionError


@dramatiq.actor(actor_class=CeleryActor)
def poll():
    import time

    while True:
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def shop(
    shared_user: User, shared_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModuleType]:
    """The module of the page in this process, and a process that runs it."""
    user, folder = shared_user, tmp_path_factory.mktemp("shop")
    (folder / "celery_shop.py").write_text(MODULE + LONG_TASK)
    user.env |= {"BROKER_URL": user.stack.url, "BROKER_KEY": user.stack.create_key("shop")}
    user.env["PYTHONPATH"] += os.pathsep + str(folder)
    user.stack.web()
    user.worker()
    user.process(module="celery_shop")
    eventually(lambda: shared_database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'poll'")))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BROKER_URL", "BROKER_KEY", "TASK_EXECUTOR_ACTORS"):
            patch.setenv(name, user.env[name])
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("celery_shop")
    dramatiq.get_broker().close()
    del sys.modules["celery_shop"]
    dramatiq.set_broker(None)


def test_calls_of_the_page_stay_as_they_are(shop: ModuleType, shared_database: Database) -> None:
    exec(CALLS, {"charge": shop.charge})
    schedules = text("SELECT endpoint, cron_expression FROM jobs WHERE trigger_type = 'CRON'")
    assert [(row.endpoint, row.cron_expression) for row in shared_database.fetch(schedules)] == [
        ("report", "0 9 * * *")
    ]


def test_actor_can_catch_its_time_limit(shop: ModuleType) -> None:
    assert shop.resize.delay().get(timeout=30) == "cleaned up"


def test_states_have_the_names_of_celery(shop: ModuleType) -> None:
    result = shop.charge.delay("A-1", 1)
    eventually(result.ready)
    assert (result.status, result.successful(), result.failed()) == ("SUCCESS", True, False)
    result.revoke()  # of an ended message changes nothing
    assert result.state == "SUCCESS"
    failing = shop.fail.delay()
    eventually(failing.failed)
    assert shop.charge.AsyncResult("unknown").state == "PENDING"
    assert shop.charge.AsyncResult(f"exec_{0:032x}").state == "PENDING"
    assert shop.charge.apply_async(["A-2", 1], countdown=60).state == "PENDING"


def test_messages_of_two_actors_with_the_same_id_are_apart(shop: ModuleType) -> None:
    charged = shop.charge.apply_async(["A-3", 1], task_id="42", countdown=60)
    failing = shop.fail.apply_async(task_id="42", countdown=60)
    assert charged.state == failing.state == "PENDING"
    failing.revoke()
    assert (charged.state, failing.state) == ("PENDING", "REVOKED")


@pytest.mark.parametrize("is_ended", [True, False])
def test_running_task_is_interrupted_only_if_it_is_terminated(
    shop: ModuleType, shared_database: Database, *, is_ended: bool
) -> None:
    running: Any = shop.poll.delay()
    eventually(lambda: running.state == "STARTED")
    running.revoke(terminate=is_ended)
    asked = text("SELECT * FROM executions WHERE endpoint = 'poll' ORDER BY created_at DESC LIMIT 1")
    (row,) = shared_database.fetch(asked)
    assert (row.cancel_requested_at is None, row.abort_requested_at is None) == (False, not is_ended)
    if is_ended:
        eventually(lambda: running.state == "REVOKED")
    else:
        assert running.state == "STARTED"
