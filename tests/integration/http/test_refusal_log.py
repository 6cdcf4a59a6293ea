"""Log of refused requests."""

import logging

import pytest
from flask import Flask

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import ForbiddenError, UnauthorizedError
from app.web.http import refusal_log
from app.web.http.refusal_log import LINES_PER_WINDOW, WINDOW_SECONDS, RefusalLog
from tests.integration.client import Api, running, services

WRONG = "te_0123456789abcdef_5ecre7"
ADDRESS = {"environ_overrides": {"REMOTE_ADDR": "192.0.2.7"}}


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, refusal_log.__name__)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == refusal_log.__name__]


def test_refusal_line_names_key_and_address(app: Flask, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    reader = api_keys.create(database, "reader", [Scope.READ], None)
    refused = [Api(app, key).send("POST", "/configs", **ADDRESS) for key in (None, WRONG, reader)]
    assert [response.status_code for response in refused] == [401, 401, 403]
    logged = lines(caplog)
    expected = [("401", "unknown"), ("401", "0123456789abcdef"), ("403", api_keys.id_in(reader))]
    for line, response, (status, key_id) in zip(logged, refused, expected, strict=True):
        assert response.headers["X-Request-ID"] in line
        assert status in line
        assert f"key {key_id}," in line
        assert "192.0.2.7" in line
        assert "5ecre7" not in line
        assert reader.split("_")[2] not in line


def test_rate_limited_request_is_logged(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(Settings(database_url=database_url, rate_limit="1/hour")) as app:
        key = api_keys.create(services(app).database, "eager", [Scope.READ], None)
        assert [Api(app, key).get("/jobs").status_code for _ in range(2)] == [200, 429]
    (line,) = lines(caplog)
    assert "429 RATE_LIMITED" in line
    assert api_keys.id_in(key) in line


@pytest.mark.parametrize(
    "presented", ["sk-live-5ecre7", "te_\n5ecre7\n_x", "te_" + "5ecre7" * 9 + "_x", "te_5ecre7", ""]
)
def test_log_does_not_repeat_a_malformed_key(presented: str, caplog: pytest.LogCaptureFixture) -> None:
    RefusalLog().note(UnauthorizedError("no"), presented, "192.0.2.7", "req_1")
    (line,) = lines(caplog)
    assert "5ecre7" not in line


def test_flood_is_logged_in_few_lines_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refusal_log_ = RefusalLog(clock=lambda: now)
    for _ in range(1000):
        refusal_log_.note(UnauthorizedError("no"), WRONG, "192.0.2.7", "req_1")
    refusal_log_.note(ForbiddenError("no"), WRONG, "192.0.2.8", "req_2")
    assert len(lines(caplog)) == LINES_PER_WINDOW + 1, "another status is still logged"
    now = WINDOW_SECONDS
    refusal_log_.note(UnauthorizedError("no"), WRONG, "192.0.2.9", "req_3")
    assert f"{1000 - LINES_PER_WINDOW} more" in lines(caplog)[-1]
