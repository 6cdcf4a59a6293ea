"""The rules of endpoints in a worker process: there before the first claim, and new soon after each change."""

from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.endpoints.limits import EndpointLimits
from app.kernel import db
from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import PULSE, FlowRules, Pulse, Rules
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import worker_process
from tests.target_rules import current_rules
from tests.waiting import eventually

SET = text("UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = :name")
PAUSE = text("UPDATE endpoints SET paused_at = now() WHERE name = :name")
BUMP = text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'")

WAITING = text(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def change(database: Database, *statements: tuple[object, dict[str, object]]) -> None:
    """Change rules as the API does: together with their revision."""
    database.transact(lambda one: [one.execute(sql, params) for sql, params in (*statements, (BUMP, {}))])  # type: ignore[call-overload]


@pytest.fixture
def limited(database: Database) -> str:
    """An endpoint that is limited from the beginning."""
    rows.add_endpoint(database, "limited")
    database.fetch(SET, {"name": "limited", "limits": '{"max_in_flight": 3}'})
    return "limited"


def test_they_are_known_once_a_process_is_open(limited: str, process: WorkerProcess) -> None:
    assert process.rules.of(limited) == Rules(EndpointLimits(3, None, None), None, is_paused=False)
    assert process.rules.of("target") is None
    assert process.rules.capped == {limited}


def test_a_change_is_known_without_a_claim_and_wakes_the_consumers(limited: str, process: WorkerProcess) -> None:
    inbox, known_then = process.inboxes.open("http"), list[dict[str, Rules]]()

    def is_woken_with(rules: dict[str, Rules]) -> bool:
        if inbox.arrived.is_set():
            inbox.arrived.clear()
            known_then.append(dict(process.rules.by_endpoint))
        return rules in known_then

    change(process.database, (SET, {"name": limited, "limits": None}), (PAUSE, {"name": "target"}))
    after = {"target": Rules(None, None, is_paused=True)}
    eventually(lambda: is_woken_with(after), what="te-flow to wake the consumer")
    assert process.rules.capped == frozenset()


class ChangesMeanwhile:
    """A database whose rules change right after they were read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def fetch(self, *asked: Any) -> Any:
        found = self._database.fetch(*asked)
        change(self._database, (PAUSE, {"name": "target"}))
        return found


def test_a_change_that_is_told_while_the_rules_are_read_is_not_missed(database: Database) -> None:
    """By a claim of another thread: until the next change of any endpoint nobody would read them again."""
    rules = FlowRules(ChangesMeanwhile(database))  # type: ignore[arg-type]
    assert rules.refresh()
    assert rules.of("target") is None
    assert rules.refresh(rules.revision + 1)
    assert rules.of("target") == Rules(None, None, is_paused=True)


def test_changes_that_the_database_has_lost_are_lost_here_too(process: WorkerProcess) -> None:
    """As after a failover to a replica that lagged behind: the next change has a number that was there before."""
    before = process.rules.revision
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the pause")
    process.database.fetch(text("UPDATE endpoints SET paused_at = NULL RETURNING 1"))
    process.database.fetch(text("UPDATE catalog_revision SET revision = revision - 1 WHERE id = 'flow' RETURNING 1"))
    eventually(lambda: process.rules.of("target") is None, what="that nothing is paused")
    eventually(lambda: process.rules.revision == before, what="the revision that the database has")
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the pause")


def test_te_flow_goes_on_after_what_it_cannot_do(process: WorkerProcess) -> None:
    asked: list[int] = []
    told: list[object] = []
    told_before: list[object] = []

    def refuse(_pulse: object) -> None:
        asked.append(1)
        raise RuntimeError("no")

    process.flow.on_pulse(told.append)
    process.flow.on_pulse(refuse)
    process.flow.on_pulse(told_before.append)
    process.flow.hurry.set()
    eventually(lambda: len(asked) > 1 and told, what="a second pulse, and who listens after the one that fails")
    eventually(lambda: told_before, what="who listens before it")
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the rules")


@pytest.mark.postgresql_only
def test_an_abort_waits_for_nothing_that_te_flow_writes(database: Database, database_url: str) -> None:
    told: list[Pulse] = []
    process = worker_process(database, db.connect(database_url, pool_size=1, application_name="te-test-lease"))
    process.flow.on_pulse(told.append)
    process.bindings.bind("target", "http:host:80", 1000, has_turns=True).target.failed("target")
    with database.engine.connect() as connection, connection.begin():
        connection.execute(text("LOCK TABLE breaker_counts IN EXCLUSIVE MODE"))
        process.open(["http"])
        eventually(lambda: database.fetch(WAITING)[0].n == 1, what="te-flow to wait for the lock")
        assert len(told) == 1
    process.close()


@pytest.mark.postgresql_only
@pytest.mark.parametrize("statistics", ["fresh", "from before"])
def test_a_pulse_reads_the_requests_to_abort_and_nothing_else_that_runs(database: Database, statistics: str) -> None:
    if statistics == "from before":
        database.fetch(text("ANALYZE executions"))
    rows.add_executions(database, 3000)
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'wrk_1', started_at = now(), attempt_count = 1")
    )
    if statistics == "fresh":
        database.fetch(text("ANALYZE executions"))
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + PULSE.text), {"worker": "wrk_1"}))
    assert "idx_executions_aborts" in plan
    assert "Seq Scan on executions" not in plan


def test_rules_that_were_edited_by_hand_keep_no_others_out(limited: str, database: Database) -> None:
    for name, limits in {"odd": '{"rate": 7}', "odder": '{"rate": {"count": "x", "per": "1 fortnight"}}'}.items():
        rows.add_endpoint(database, name)
        database.fetch(SET, {"name": name, "limits": limits})
    rules = current_rules(database).by_endpoint
    assert {name: its.limits and its.limits.max_in_flight for name, its in rules.items()} == {
        limited: 3,
        "odd": None,
        "odder": None,
    }
