"""Page of the console that simulates an outage."""

from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, register

PATH = "/console/schedules/what-if"


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ, Scope.JOBS_WRITE)


def test_outage_is_simulated(api: Api, visitor: Visitor) -> None:
    asked = visitor.get(PATH)
    assert "Simulate" in asked
    assert "Times are in UTC" not in asked.partition("<footer")[0], "results are in the viewer's zone"
    assert "Down from, UTC" in asked
    register(api)
    created(api, cron(cron="* * * * *", name="beat", max_catch_up=10))
    at = datetime.now(UTC).replace(microsecond=0)
    begin, end = (f"{at + timedelta(hours=hours):%Y-%m-%dT%H:%M}" for hours in (2, 3))
    page = visitor.get(f"{PATH}?length=1d&outage_start={begin}&outage_end={end}")
    assert all(part in page for part in (">beat<", ">10<", ">50<", "missed during the outage"))
    assert "No active schedule matches" in visitor.get(f"{PATH}?length=1d&name=nobody")
    assert "Must be within the period" in visitor.get(f"{PATH}?length=1h&outage_start={begin}&outage_end={end}")
