"""Statements that pages of the console run, and executions that wait for each reason."""

from collections.abc import Iterable
from datetime import timedelta

from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from benchmarks.statement_costs import is_setting
from tests import rows
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.statements import Statements

MAX_STATEMENTS = 12
_TARGET = "https:api.example.com:443"
_LATE = timedelta(seconds=-5)
_DUE = {"later": timedelta(hours=1)}


def with_many_statements(app: Flask, statements: Statements, wanted: Iterable[str]) -> dict[str, list[str]]:
    """Open pages twice; return the statements of pages that run too many the second time."""
    admin, found = Visitor(app, Scope.ADMIN), dict[str, list[str]]()
    for address in wanted:
        assert "This part cannot be shown" not in admin.get(address), address
        texts = _statements_of(admin, statements, address)
        if len(texts) > MAX_STATEMENTS:
            # Once more: on a slow machine the process may have read its keys or settings again since then.
            texts = _statements_of(admin, statements, address)
        if len(texts) > MAX_STATEMENTS:
            found[address] = texts
    return found


def _statements_of(admin: Visitor, statements: Statements, address: str) -> list[str]:
    statements.clear()
    admin.get(address)
    return [each for each in statements.texts if not is_setting(each)]


class Waits:
    """Executions that wait for each reason, by words of their explanations."""

    def __init__(self, api: Api, database: Database) -> None:
        names = ("broken", "paused", "limited", "queued", "unserved", "behind", "later")
        for name in names:
            rows.add_endpoint(database, name)
        rows.add_breaker(database, _TARGET, "open", open_for=timedelta(minutes=1))
        led = text("INSERT INTO breaker_endpoints (target, endpoint) VALUES (:target, :name)")
        for name in ("broken", *(f"e{number}" for number in range(20))):
            database.fetch(led, {"target": _TARGET, "name": name})
        assert api.post("/endpoints/paused/pause", {}).status_code == 200
        assert api.send("PATCH", "/endpoints/limited", json={"limits": {"max_in_flight": 1}}).status_code == 200
        worker_lease.register(
            database, worker_id="w", host="h", pid=1, queues=["http", "still"], capacity=9, lease_ms=6_000_000
        )
        found = {name: rows.add_executions(database, 3, endpoint=name, due_in=_DUE.get(name, _LATE)) for name in names}
        rows.move_to_one_shard(database)
        for name, queue in (("queued", "still"), ("unserved", "nobody")):
            move = text("UPDATE executions SET queue = :queue WHERE endpoint = :name")
            database.fetch(move, {"queue": queue, "name": name})
        assert api.post("/queues/still/pause", {}).status_code == 200
        run = text(
            "UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1"
            " WHERE execution_id = :id"
        )
        database.fetch(run, {"id": found["limited"][0]})
        self.last = {name: executions[-1] for name, executions in found.items()}
