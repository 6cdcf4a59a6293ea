"""Django's command that prunes the inbox."""

import os
import time
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace

import pytest
from task_executor_receiver import sql

from tests.contract.receiver.deliveries import is_replayed, new_delivery
from tests.contract.receiver.stores import Store, over_django

if not os.environ.get("CI"):
    pytest.importorskip("django")

from django.core.management import CommandError, call_command

DAY_SECONDS = 86_400


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = over_django(url)
    yield store
    store.close()


def prune(*arguments: str) -> str:
    output = StringIO()
    call_command("prune_task_executor_inbox", *arguments, stdout=output)
    return output.getvalue().strip()


def test_command_deletes_executions_without_an_attempt_in_the_last_days(
    store: Store, execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.inbox.process(new_delivery(execution), store.effect)
    monkeypatch.setattr(sql, "time", SimpleNamespace(time=lambda: time.time() + 3 * DAY_SECONDS))
    assert prune() == "deleted executions: 0"
    assert prune("--days", "4") == "deleted executions: 0"
    assert prune("--days", "2", "--database", "default") == "deleted executions: 1"


@pytest.mark.parametrize("days", ["-1", "0", "36501", "1" + 12 * "0"])
def test_command_refuses_days_out_of_bounds_and_deletes_nothing(store: Store, execution: str, days: str) -> None:
    store.inbox.process(new_delivery(execution), store.effect)
    with pytest.raises(CommandError, match=rf"^--days: must be from 1 to 36500, and more than .*, not {days}$"):
        prune("--days", days)
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
