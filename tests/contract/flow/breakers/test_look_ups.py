"""Where endpoints behind open breakers lead by now is looked up without anything of them being claimed."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors import build
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.catalog import loader
from app.catalog.configs import CONFIGS
from app.features.breakers.look_ups import LookUps
from app.features.breakers.moves import Moves
from app.features.breakers.store import close
from app.kernel import db
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.flow.breakers.breaking import deliveries_of, revisions, room_of, statuses
from tests.waiting import eventually

NUMBER = 1000
DEAD, ELSEWHERE = "http:127.0.0.1:9", "http:elsewhere:80"
BREAKER = "http:host:80"


def add_version(database: Database, name: str = "shut", url: str = "http://elsewhere/") -> None:
    """Let an endpoint have a second version."""
    spec = json.dumps({"url": url, "method": "POST"})
    add = """
        WITH e AS (UPDATE endpoints SET version = 2 WHERE name = :name RETURNING name),
             t AS (UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1)
        INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)
        SELECT name, 2, 'HTTP', CAST(:spec AS JSONB) FROM e RETURNING 1
    """
    database.fetch(text(add), {"name": name, "spec": spec})


def shut_endpoint(database: Database, process: WorkerProcess, name: str) -> None:
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.targets.behind_shut, what="the state of the breaker")


def add_many(database: Database, process: WorkerProcess) -> None:
    """Add endpoints of one dead host that have had two versions, each with something due."""
    spec = {"url": "http://127.0.0.1:9/", "method": "POST"}
    rows.add_endpoint(database, "many-0", spec=spec)
    added = """
        WITH n AS (SELECT 'many-' || i AS name FROM generate_series(1, :number) AS g (i)),
             v AS (INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)
                   SELECT n.name, v, 'HTTP', e.spec FROM n CROSS JOIN generate_series(1, 2) AS g (v)
                     JOIN endpoints AS e ON e.name = 'many-0' RETURNING 1)
        INSERT INTO endpoints (name, version, endpoint_type, spec)
        SELECT n.name, 2, 'HTTP', e.spec FROM n JOIN endpoints AS e ON e.name = 'many-0' RETURNING name
    """
    names = [row.name for row in database.fetch(text(added), {"number": NUMBER})]
    due = rows.add_executions(database, NUMBER, endpoint="many-0")
    spread = """
        UPDATE executions SET endpoint = n.name
          FROM unnest(CAST(:ids AS TEXT[]), CAST(:names AS TEXT[])) AS n (id, name)
         WHERE execution_id = n.id RETURNING 1
    """
    database.fetch(text(spread), {"ids": due, "names": names})
    for name in names:
        process.targets.bind(name, DEAD, 30_000, has_turns=True)


def look_ups_of(process: WorkerProcess, deliveries: Deliveries) -> list[str]:
    """Return the list of the endpoints that are looked up from now on."""
    looked_up: list[str] = []

    def look_up(endpoint: str, revision: int) -> None:
        deliveries.look_up(endpoint, revision)
        looked_up.append(endpoint)

    process.look_up = look_up
    return looked_up


def test_however_many_are_looked_up_others_are_claimed_from_as_ever(
    database: Database, process: WorkerProcess, loop: DeliveryLoop
) -> None:
    looked_up = look_ups_of(process, deliveries_of(database, process, loop))
    add_many(database, process)
    rows.add_breaker(database, DEAD, "open", open_for=timedelta(hours=1))
    eventually(lambda: len(process.targets.behind_shut()) == NUMBER, what="the state of the breaker")
    attempts = Attempts(process)
    while len(looked_up) < NUMBER:
        rows.add_executions(database, 1)
        process.wake()
        attempt = attempts.next()
        assert attempt.claim.endpoint == "target"
        assert attempt.release(put_off_ms=3_600_000)
    assert len(process.targets.shut) == NUMBER
    others = "SELECT DISTINCT status, attempt_count FROM executions WHERE endpoint <> 'target'"
    assert [tuple(row) for row in database.fetch(text(others))] == [("QUEUED", 0)]


def test_a_look_up_spends_no_token(database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str) -> None:
    """Else nothing of the endpoint starts for an hour after its breaker has closed."""
    limits = {"rate": {"count": 1, "per": "1h", "burst": 1}}
    limit = "UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = 'shut' RETURNING 1"
    database.fetch(text(limit), {"limits": json.dumps(limits)})
    add_version(database, url=f"http://{name.partition(':')[2]}/ok/shut")
    eventually(lambda: process.rules.of("shut"), what="its rules")
    deliveries = deliveries_of(database, process, loop)
    looked_up = look_ups_of(process, deliveries)
    rows.add_executions(database, 1, endpoint="shut")
    rows.add_executions(database, 1)
    shut_endpoint(database, process, name)
    attempts = Attempts(process)
    other = attempts.next()
    assert other.claim.endpoint == "target"
    assert other.release(put_off_ms=3_600_000)
    eventually(lambda: looked_up, what="the look-up")
    assert statuses(database) == [("QUEUED", 0)]
    close(database, name, "somebody")
    deliveries.start([attempts.next()])
    eventually(lambda: statuses(database) == [("SUCCESS", 1)], what="the one that had a token")


def test_where_an_endpoint_leads_is_looked_up_until_the_database_tells(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    away = db.connect("postgresql://127.0.0.1:9/none", pool_size=1, application_name="te-test-away")
    unable = Deliveries(catalog_of(away), loop, away, process.targets)
    able, refused = deliveries_of(database, process, loop), list[str]()

    def look_up(endpoint: str, revision: int) -> None:
        with pytest.raises(UnavailableError) as error:
            unable.look_up(endpoint, revision)
        refused.append(endpoint)
        raise error.value

    process.look_up = look_up
    add_version(database)
    shut_endpoint(database, process, name)
    eventually(lambda: refused, what="a look-up that fails")
    assert list(process.targets.shut) == ["shut"]
    process.look_up = able.look_up
    eventually(lambda: process.targets.bound["shut"].name == ELSEWHERE, what="that it is asked again")
    assert not process.targets.shut


@pytest.mark.parametrize(
    ("newest", "error"), [("1 / 0", "DataError"), ("99", "TemplateError")], ids=["statement", "template"]
)
def test_what_a_newest_version_cannot_tell_is_not_asked_again(
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    newest: str,
    error: str,
) -> None:
    """Waiting would not help."""
    monkeypatch.setattr(loader, "NEWEST", text(f"SELECT {newest} AS version"))
    process.targets.bind("shut", DEAD, 5000, has_turns=True)
    with caplog.at_level("INFO", "actors.deliver"):
        deliveries_of(database, process, loop).look_up("shut", 1)
    assert caplog.messages == [f"where shut leads by now is not known: {error}"]
    assert process.targets.bound["shut"].name == DEAD


def test_it_is_looked_up_by_a_revision_that_was_told_after_the_change_was_found(database: Database) -> None:
    """One of before may be older than what was found, and that is not told again."""
    CONFIGS.create(database, "conf", {"base": "http://a"}, AuditedChange(SYSTEM))
    rows.add_endpoint(database, "by_config", config_ref="conf")
    looked_up: list[tuple[Any, ...]] = []
    look_ups, behind = LookUps(Moves(database)), {"by_config": BREAKER}

    def go_on(told: tuple[int, int]) -> bool:
        return look_ups.go_on(behind, *told, lambda *of: looked_up.append(of))

    told = revisions(database)
    CONFIGS.replace(database, "conf", {"base": "http://b"}, AuditedChange(SYSTEM))
    assert go_on(told)
    assert looked_up == []
    assert not go_on(now := revisions(database))
    assert looked_up == [("by_config", now[1])]
    assert now[1] > told[1]


def test_one_that_cannot_be_looked_up_keeps_no_other(database: Database) -> None:
    behind = dict.fromkeys(["one", "other"], BREAKER)
    for endpoint in behind:
        rows.add_endpoint(database, endpoint)
        add_version(database, endpoint)
    asked: list[str] = []
    look_ups = LookUps(Moves(database))

    def look_up(endpoint: str, _revision: int) -> None:
        asked.append(endpoint)
        if endpoint == asked[0]:
            raise UnavailableError("the database cannot be reached")

    assert look_ups.go_on(behind, *revisions(database), look_up)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            look_ups.go_on(behind, *revisions(database), look_up)
    assert asked[:2] == sorted(behind, key=lambda endpoint: endpoint != asked[0])


def test_who_is_behind_no_breaker_any_more_is_not_looked_up(database: Database) -> None:
    rows.add_endpoint(database, "one")
    add_version(database, "one")
    asked: list[str] = []
    look_ups = LookUps(Moves(database))
    assert look_ups.go_on({"one": BREAKER}, *revisions(database), lambda endpoint, _: asked.append(endpoint))
    assert not look_ups.go_on({}, *revisions(database), lambda endpoint, _: asked.append(endpoint))
    assert asked == []


def test_a_version_that_is_newer_than_what_was_looked_up_wins(database: Database, process: WorkerProcess) -> None:
    """Whichever of them is told last, and whichever of their targets is shut."""
    targets = process.targets
    shut_endpoint(database, process, DEAD)

    def lead(name: str, version: int) -> int:
        targets.bind("shut", name, 5000, has_turns=True, as_of=(version, 7))
        return room_of(targets, "shut", {})

    assert lead(ELSEWHERE, 2) > 0
    assert lead(DEAD, 1) > 0
    assert lead(DEAD, 3) == 0
    assert lead(ELSEWHERE, 2) == 0
    assert lead(ELSEWHERE, 4) > 0


def test_a_worker_that_is_built_looks_up_by_its_own_catalogue(database: Database, database_url: str) -> None:
    rows.add_endpoint(database, "shut")
    add_version(database)
    broker, _ = build(Settings(database_url=database_url))
    process = broker.process
    process.targets.bind("shut", DEAD, 5000, has_turns=True)
    process.look_up("shut", 1)
    assert process.targets.bound["shut"].name == ELSEWHERE
    process.database.close()
