"""Executions under any order of steps of two workers and two schedulers, compared with a model."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from app.kernel import db, ids
from app.kernel.db import Database
from tests import rows
from tests.cases import IS_WHOLE
from tests.contract.races.lease_protocol import LeaseProtocol


@pytest.fixture
def model_database(database_url: str) -> Iterator[Database]:
    database = db.connect(database_url, pool_size=1, application_name="te-test")
    rows.add_endpoint(database)
    yield database
    database.close()


@pytest.mark.sampled
def test_rows_equal_the_model_after_any_order_of_steps(
    model_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test runs about 750 steps, or 8,000 in `make fuzz`; each run tries other orders."""
    # Rows with the same instant are claimed in the order of their ids, so the ids must not be random.
    numbers = itertools.count()
    monkeypatch.setattr(ids, "execution_id", lambda: f"exec_{next(numbers):08}")
    monkeypatch.setattr(ids, "worker_id", lambda: f"wrk_{next(numbers):08}")
    LeaseProtocol.database = model_database
    checks = settings(
        max_examples=160 if IS_WHOLE else 15,
        stateful_step_count=60,
        deadline=None,
        # Shrinking takes minutes; a failure prints its original steps.
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(LeaseProtocol, settings=checks)
