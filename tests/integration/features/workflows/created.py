"""Workflows of the tests, created through the API."""

from typing import Any

from sqlalchemy import text

from app.kernel.db import Database
from tests.integration.client import Api

DIAMOND = [
    {"name": "start", "endpoint": "target"},
    {"name": "left", "endpoint": "target", "after": ["start"]},
    {"name": "right", "endpoint": "target", "after": ["start"], "for_each": [1, 2, 3]},
    {"name": "join", "after": ["left", "right"]},
    {"name": "end", "endpoint": "target", "after": ["join"], "input": {"user_id": "{{parents.left.output.body}}"}},
]


def body(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "w", "nodes": [*(nodes or DIAMOND)]} | fields


def made(api: Api, *nodes: dict[str, Any], **fields: Any) -> str:
    response = api.post("/workflows", body(*nodes, **fields))
    assert response.status_code == 201, response.get_data(as_text=True)
    found: str = response.json["workflow_id"]
    return found


def count(database: Database, table: str) -> int:
    found: int = database.fetch(text(f"SELECT count(*) AS n FROM {table}"))[0].n
    return found
