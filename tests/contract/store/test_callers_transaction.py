"""Connections of callers: the actor kit refuses the ones that it cannot use in a transaction."""

from types import SimpleNamespace
from typing import Any

import pytest
from task_executor_dramatiq.callers_transaction import executing
from task_executor_dramatiq.sending import SendError

pytestmark = pytest.mark.postgresql_only


def test_autocommit_of_a_driver_that_shows_no_open_transaction_is_refused() -> None:
    """Such as pg8000, whose connections have no `info`."""

    def execute(*_arguments: Any) -> None:
        pytest.fail("the statement runs, and is committed by itself")

    connection = SimpleNamespace(autocommit=True, cursor=execute)
    with pytest.raises(SendError, match=r"\(autocommit\): set autocommit = False"):
        executing(connection)("SELECT 1", ())
