"""Which endpoints behind open breakers may lead elsewhere by now."""

from collections.abc import Callable
from itertools import count

import pytest
from sqlalchemy import event, text

from app.catalog.configs import CONFIGS
from app.catalog.revision import CATALOG, FLOW
from app.features.breakers import moves as catalog_moves
from app.features.breakers.moves import PAGE, SHORTEST_SECONDS, Moves
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from tests import rows
from tests.contract.flow.breakers.breaking import revisions

BREAKER = "http:host:80"
BEHIND = dict.fromkeys(["target", "by_config", "by_secret"], BREAKER)
NEW = {"new": BREAKER}


@pytest.fixture
def moves(database: Database) -> Moves:
    """Of three endpoints, one with a config and one with a secret, as they are now; asked no more often than it reads.

    The third has had one version and refers to nothing: it has led nowhere else ever.
    """
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
    moves = paced(database)
    assert moves.of(BEHIND, *revisions(database)) == {"by_config", "by_secret"}
    assert moves.of(BEHIND, *revisions(database)) == set()
    return moves


def paced(database: Database) -> Moves:
    """Have as much time pass between two times as between two readings."""
    return Moves(database, map(float, count(step=int(SHORTEST_SECONDS))).__next__)


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
    assert moves.of(BEHIND, *bumped(database, of)) == moved
    assert moves.of(BEHIND, *bumped(database, of)) == set()


def test_what_changes_while_an_endpoint_is_asked_for_is_not_missed(database: Database, moves: Moves) -> None:
    """What is read then is already newer than what was told, and whoever looks does so after that."""
    rows.add_endpoint(database, "new")
    told = revisions(database)
    database.fetch(text("UPDATE endpoints SET version = 2 WHERE name IN ('target', 'new') RETURNING 1"))
    now = bumped(database, FLOW)
    assert moves.of(BEHIND | NEW, *told) == {"new"}
    assert moves.of(BEHIND | NEW, *now) == {"target"}


def test_one_that_comes_behind_a_breaker_may_have_moved_each_time_that_it_does(
    database: Database, moves: Moves
) -> None:
    """By an earlier version's delivery, without any change since; and not while it is there."""
    rows.add_endpoint(database, "new")
    database.fetch(text("UPDATE endpoints SET version = 2 WHERE name = 'new' RETURNING 1"))
    now = bumped(database, FLOW)
    for opening in (NEW, {"new": "http:another:80"}, NEW):
        assert moves.of(opening, *now) == {"new"}
        assert moves.of(BEHIND | opening, *now) == {"by_config", "by_secret"}
        assert moves.of(BEHIND | opening, *now) == set()
    assert moves.of({}, *now) == set()
    assert moves.of(NEW, *now) == {"new"}


def add_moved(database: Database, number: int) -> dict[str, str]:
    """Add endpoints that have had two versions; returns them behind a breaker."""
    added = """
        WITH numbers AS (SELECT 'many-' || n AS name FROM generate_series(1, :number) AS g (n)),
             versions AS (
                 INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)
                 SELECT name, v, 'HTTP', '{}' FROM numbers CROSS JOIN generate_series(1, 2) AS g (v) RETURNING 1)
        INSERT INTO endpoints (name, endpoint_type, spec, version)
        SELECT name, 'HTTP', '{}', 2 FROM numbers RETURNING name
    """
    return {row.name: BREAKER for row in database.fetch(text(added), {"number": number})}


def count_reads(database: Database) -> Callable[[], int]:
    """Count how often it is read what endpoints lead by; each call begins anew."""
    seen: list[int] = []
    mark = catalog_moves.SOURCES.text.strip().partition("\n")[0]

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        seen.extend([1] * (mark in sql))

    def taken() -> int:
        number = len(seen)
        seen.clear()
        return number

    return taken


def test_a_breaker_that_stays_open_has_its_endpoints_looked_up_once(database: Database) -> None:
    """However many there are, and however long; each statement reads a part of them."""
    behind, now, reads = add_moved(database, 2 * PAGE), revisions(database), count_reads(database)
    moves = paced(database)
    assert moves.of(behind, *now) == behind.keys()
    assert reads() == 2
    assert [moves.of(behind, *now) for _ in range(100)] == [set()] * 100
    # Others come behind theirs meanwhile, and go.
    rows.add_endpoint(database, "new")
    assert moves.of(behind | NEW, *now) == set(), "it has led nowhere else"
    assert reads() == 1
    assert moves.of(behind, *now) == set()
    assert reads() == 0


def test_what_keeps_changing_is_read_every_two_seconds_and_what_is_new_at_once(database: Database) -> None:
    """Each process reads for itself, and others may change their limits every second."""
    behind, reads, at = add_moved(database, 2), count_reads(database), 0.0
    moves = Moves(database, lambda: at)
    first, second = sorted(behind)
    assert moves.of({first: BREAKER}, *revisions(database)) == {first}
    assert moves.of({first: BREAKER}, *bumped(database, FLOW)) == set()
    assert reads() == 2
    database.fetch(text("UPDATE endpoints SET version = 3 WHERE name = :name RETURNING 1"), {"name": first})
    assert moves.of({first: BREAKER}, *bumped(database, FLOW)) == set()
    assert reads() == 0
    assert moves.of(behind, *revisions(database)) == {second}
    assert reads() == 1
    at = SHORTEST_SECONDS
    assert moves.of(behind, *revisions(database)) == {first}
    assert moves.of(behind, *revisions(database)) == set()
    assert reads() == 1
