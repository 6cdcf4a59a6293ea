"""Which endpoints may lead elsewhere than when they were asked for last."""

import pytest
from sqlalchemy import text

from app.audit import SYSTEM
from app.audit.change import AuditedChange
from app.catalog.configs import CONFIGS
from app.catalog.moves import Moves
from app.catalog.revision import CATALOG, FLOW
from app.db import Database
from tests import rows

ENDPOINTS = ["target", "by_config", "by_secret"]


@pytest.fixture
def moves(database: Database) -> Moves:
    """Of three endpoints, one with a config and one with a secret, as they are now."""
    CONFIGS.create(database, "conf", {"base": "http://a"}, AuditedChange(SYSTEM))
    rows.add_endpoint(database, "by_config", config_ref="conf")
    rows.add_endpoint(database, "by_secret")
    for name in ("own", "other"):
        add = "INSERT INTO secrets (name, encrypted_value) VALUES (:name, CAST('x' AS BYTEA)) RETURNING 1"
        database.fetch(text(add), {"name": name})
    refers = (
        "UPDATE endpoint_versions SET secret_refs = CAST('[\"own\"]' AS JSONB) WHERE endpoint = 'by_secret' RETURNING 1"
    )
    database.fetch(text(refers))
    moves = Moves(database)
    assert moves.of(ENDPOINTS, *revisions(database)) == set()
    return moves


def revisions(database: Database) -> tuple[int, int]:
    found = database.fetch(text("SELECT id, revision FROM catalog_revision"))
    by_id = {row.id: row.revision for row in found}
    return by_id[FLOW], by_id[CATALOG]


def bumped(database: Database, of: str) -> tuple[int, int]:
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = :id RETURNING 1"), {"id": of})
    return revisions(database)


@pytest.mark.parametrize(
    ("change", "of", "moved"),
    [
        ("UPDATE endpoints SET limits = CAST('{\"max_in_flight\": 1}' AS JSONB) WHERE name = 'target'", FLOW, set()),
        ("UPDATE secrets SET revision = 2, updated_at = now() WHERE name = 'other'", CATALOG, set()),
        ("UPDATE secrets SET revision = 2, updated_at = now() WHERE name = 'own'", CATALOG, {"by_secret"}),
        ("UPDATE configs SET revision = 2 WHERE name = 'conf'", CATALOG, {"by_config"}),
        ("UPDATE endpoints SET version = 2 WHERE name = 'target'", FLOW, {"target"}),
    ],
)
def test_only_what_concerns_an_endpoint_may_move_it_and_once(
    database: Database, moves: Moves, change: str, of: str, moved: set[str]
) -> None:
    database.fetch(text(f"{change} RETURNING 1"))
    assert moves.of(ENDPOINTS, *bumped(database, of)) == moved
    assert moves.of(ENDPOINTS, *bumped(database, of)) == set()


def test_what_changes_while_an_endpoint_is_asked_for_the_first_time_may_move_it(
    database: Database, moves: Moves
) -> None:
    """What is read then is already newer than what was told."""
    rows.add_endpoint(database, "new")
    told = revisions(database)
    database.fetch(text("UPDATE endpoints SET version = 2 WHERE name = 'new' RETURNING 1"))
    now = bumped(database, FLOW)
    assert moves.of([*ENDPOINTS, "new"], *told) == set()
    assert moves.of([*ENDPOINTS, "new"], *now) == {"new"}


def test_one_that_was_not_asked_for_before_a_change_may_have_moved(database: Database, moves: Moves) -> None:
    rows.add_endpoint(database, "new")
    assert moves.of([*ENDPOINTS, "new"], *bumped(database, FLOW)) == {"new"}
    assert moves.of(["new"], *bumped(database, FLOW)) == set()
