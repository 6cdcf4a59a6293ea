"""Statements of a page: few, whatever it shows, so that an open console costs the database little."""

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, one_shot, register, register_all
from tests.integration.statements import Statements

MAX_STATEMENTS = 12
PATHS = [
    "/console/workflows",
    "/console/workflows/{workflow}",
    "/console/workflows/{workflow}/retry",
    "/console/catalogue",
    "/console/catalogue/configs/config",
    "/console/catalogue/routes?endpoint=target",
    "/console/notifications",
    "/console/notifications/fails",
    "/console/activity",
    "/console/activity/audit",
    "/console/at/now",
    "/console/keys",
    "/console/search?q=target",
]


@pytest.fixture
def workflow(api: Api) -> str:
    """A workflow, beside jobs of all kinds, definitions and five notification rules."""
    register_all(api)
    register(api, "chat")
    for number in range(5):
        name = f"fails-{number}" if number else "fails"
        rule = {"name": name, "events": ["execution.failed"], "channels": ["chat"], "all": True}
        assert api.post("/notification-rules", rule).status_code == 201
        created(api, one_shot(f"k-{number}"))
    created(api, cron())
    nodes = [
        {"name": "a", "endpoint": "chat"},
        *({"name": f"n{n}", "endpoint": "chat", "after": ["a"]} for n in range(9)),
    ]
    found: str = api.post("/workflows", {"name": "w", "nodes": nodes}).json["workflow_id"]
    return found


@pytest.mark.parametrize("path", PATHS)
def test_page_runs_few_statements(app: Flask, workflow: str, statements: Statements, path: str) -> None:
    admin = Visitor(app, Scope.ADMIN)
    admin.get("/console")  # remembers the session and the key
    statements.clear()
    admin.get(path.format(workflow=workflow))
    # A setting before a chunk of a list reads nothing.
    read = [statement for statement in statements.texts if not statement.startswith("SELECT set_config")]
    assert len(read) <= MAX_STATEMENTS, read
