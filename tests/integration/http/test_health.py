"""Health: alive is who answers, ready is who has a migrated database."""

import io
import json
import logging
from typing import Any
import pytest
from flask import Flask
from sqlalchemy import text
from app import db
from app.config import Settings
from tests.integration.client import Api, pointers, problem, running, services
from tests.integration.http.malformed import MALFORMED
from tests.integration.registered import http_endpoint, one_shot, register


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
