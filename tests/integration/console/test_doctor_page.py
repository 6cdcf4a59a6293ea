"""Page of the doctor: a button begins the examination, and each problem has its fix."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.integration.console.visitor import Visitor
from tests.integration.statements import Statements

PATH = "/console/doctor"


@pytest.fixture
def admin(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.ADMIN)


def test_examination_begins_by_its_button(admin: Visitor, database: Database, statements: Statements) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 1)
    database.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '1 hour'"))
    statements.clear()
    assert "Problems" not in admin.get(PATH)
    assert len(statements.texts) <= 2
    found = admin.get(f"{PATH}?examine=on")
    assert "no worker serves the queue" in found.partition("Problems and their fixes")[2]
    assert "curl -sS" in found


def test_doctor_is_for_administrators(app: Flask, admin: Visitor) -> None:
    reader = Visitor(app, Scope.READ)
    reader.get(PATH, 403)
    assert PATH not in reader.get("/console/processes")
    assert PATH in admin.get("/console/processes")
