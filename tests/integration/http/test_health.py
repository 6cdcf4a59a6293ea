"""Health: alive is who answers, ready is who has a migrated database."""

from flask import Flask

from app.config import Settings
from tests.integration.client import Api, problem, running


def test_health(app: Flask) -> None:
    anonymous = Api(app, None)
    assert anonymous.get("/health/live").json == {"status": "ok"}
    assert anonymous.get("/health/ready").json == {"status": "ok"}


def test_ready_needs_a_migrated_database(empty_database_url: str) -> None:
    with running(Settings(database_url=empty_database_url)) as app:
        anonymous = Api(app, None)
        assert anonymous.get("/health/live").status_code == 200
        error = problem(anonymous.get("/health/ready"), 503, "SERVICE_UNAVAILABLE")
        assert "db upgrade" in error["message"]
