"""`flask grants`: grants of te_enqueue."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.cases import each_case
from tests.enqueue_caller import ENDPOINTS, Caller, calling
from tests.integration.command_line import flask_app


@pytest.fixture
def caller(database: Database, database_url: str) -> Iterator[Caller]:
    with calling(database, database_url) as caller:
        yield caller


def _listed(url: str) -> Any:
    return json.loads(flask_app(url, "grants", "list", "--json").stdout)["items"]


@pytest.mark.postgresql_only
def test_grant_is_added_used_and_removed(database: Database, database_url: str, caller: Caller) -> None:
    url, role = database_url, caller.name
    asked = flask_app(url, "grants", "add", role, "mail-*")
    assert (asked.exit_code, "refuses all roles but" in asked.stderr) == (2, True)
    added = json.loads(flask_app(url, "grants", "add", role, "mail-*", "--yes", "--json").stdout)
    assert added == {"role_name": role, "pattern": "mail-*", "is_new": True}
    assert caller.reached() == {"mail-now"}
    assert flask_app(url, "grants", "add", role, "pay").stdout == f"granted pay to {role}\n"
    assert caller.reached() == {"mail-now", "pay"}
    assert "before" in flask_app(url, "grants", "add", role, "pay").stdout
    assert _listed(url) == [{"role_name": role, "pattern": each} for each in ("mail-*", "pay")]
    assert flask_app(url, "grants", "list").stdout.split()[:4] == ["ROLE", "PATTERN", role, "mail-*"]

    assert flask_app(url, "grants", "remove", role, "pay").exit_code == 2
    assert flask_app(url, "grants", "remove", role, "pay", "--yes").stdout == f"pay is no longer granted to {role}\n"
    assert caller.reached() == {"mail-now"}
    assert "every endpoint" in flask_app(url, "grants", "remove", role, "mail-*").stderr
    removed = flask_app(url, "grants", "remove", role, "mail-*", "--yes")
    assert removed.stdout == f"mail-* is no longer granted to {role}, and te_enqueue is open to all with EXECUTE\n"
    assert _listed(url) == []
    assert caller.reached() == {*ENDPOINTS}

    changes = database.fetch(text("SELECT action, resource FROM audit_log ORDER BY occurred_at"))
    resources = [f"{role} mail-*", f"{role} pay"]
    assert [tuple(each) for each in changes] == [
        ("create", resources[0]),
        ("create", resources[1]),
        ("delete", resources[1]),
        ("delete", resources[0]),
    ]


@pytest.mark.postgresql_only
@each_case(
    ("arguments", "exit_code", "message"),
    [
        (("add", "no-such-role", "*"), 3, "no role 'no-such-role'"),
        (("add", "postgres", "Mail%"), 2, "mail-*"),
        (("remove", "postgres", "*"), 3, "grants list"),
    ],
)
def test_wrong_grant_is_refused_with_the_fix(
    database_url: str, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    done = flask_app(database_url, "grants", *arguments)
    assert done.exit_code == exit_code
    assert message in done.stderr


def test_cockroachdb_needs_no_grants(database: Database, database_url: str) -> None:
    done = flask_app(database_url, "grants", "add", "root", "*", "--yes")
    assert ("CockroachDB lacks" in done.stderr) is database.is_cockroach
