"""Rules of endpoints in a worker process: read before the first claim, and again soon after each change."""

from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.endpoints.limits import EndpointLimits
from app.kernel import db
from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import RULES, FlowRules, Rules
from brokers.flow_state import FLOW_STATE, FlowState
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import StartWorker, worker_process
from tests.target_rules import current_rules, set_rules
from tests.verdicts import success
from tests.waiting import eventually

SET = text("UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = :name")
PAUSE = text("UPDATE endpoints SET paused_at = now() WHERE name = :name")
BUMP = text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'")

WAITING = text(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def change(database: Database, *statements: tuple[object, dict[str, object]]) -> None:
    """Change rules together with their revision, as the API does."""
    database.transact(lambda connection: [connection.execute(sql, params) for sql, params in (*statements, (BUMP, {}))])  # type: ignore[call-overload]


@pytest.fixture
def limited(database: Database) -> str:
    """Name of an endpoint that has a limit before the process opens."""
    rows.add_endpoint(database, "limited")
    database.fetch(SET, {"name": "limited", "limits": '{"max_in_flight": 3}'})
    return "limited"


def test_rules_are_read_when_the_process_opens(limited: str, process: WorkerProcess) -> None:
    assert process.rules.of(limited) == Rules(EndpointLimits(3, None, None), None, is_paused=False)
    assert process.rules.of("target") is None
    assert process.rules.capped == {limited}


def test_change_is_read_without_a_claim_and_wakes_the_consumers(limited: str, process: WorkerProcess) -> None:
    inbox, rules_at_wakeup = process.inboxes.open("http"), list[dict[str, Rules]]()

    def is_woken_with(rules: dict[str, Rules]) -> bool:
        if inbox.arrived.is_set():
            inbox.arrived.clear()
            rules_at_wakeup.append(dict(process.rules.by_endpoint))
        return rules in rules_at_wakeup

    change(process.database, (SET, {"name": limited, "limits": None}), (PAUSE, {"name": "target"}))
    after = {"target": Rules(None, None, is_paused=True)}
    eventually(lambda: is_woken_with(after), what="te-flow to wake the consumer")
    assert process.rules.capped == frozenset()


class ChangesAfterRead:
    """Database that changes its rules immediately after each read of all rules."""

    def __init__(self, database: Database, *statements: tuple[object, dict[str, object]]) -> None:
        self._database = database
        self._statements = statements

    def fetch(self, *arguments: Any) -> Any:
        found = self._database.fetch(*arguments)
        if arguments[0] is RULES:
            change(self._database, *self._statements)
        return found


def test_change_reported_during_a_read_of_the_rules_is_not_missed(database: Database) -> None:
    """A claim of another thread reports the change; otherwise the rules stay outdated until the next change."""
    rules = FlowRules(ChangesAfterRead(database, (PAUSE, {"name": "target"})))  # type: ignore[arg-type]
    assert rules.refresh()
    assert rules.of("target") is None
    assert rules.refresh(rules.revision + 1)
    assert rules.of("target") == Rules(None, None, is_paused=True)


@pytest.mark.parametrize("limits", [None, {"max_in_flight": 1}])
def test_endpoint_runs_while_other_endpoints_change_during_each_read_of_the_rules(
    database: Database, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any] | None
) -> None:
    """Ten thousand rules take longer to read than the next change, so the rules of a process are never the newest."""
    set_rules(database, limits)
    _, process = start_worker(lambda attempt: attempt.complete(success({})), capacity=4)
    monkeypatch.setattr(process.rules, "_database", ChangesAfterRead(process.database))
    change(database)
    rows.add_executions(database, 20)
    process.inboxes.wake()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 20}, what="all executions to succeed")
    set_rules(database, paused=True)
    rows.add_executions(database, 20)
    process.inboxes.wake()
    eventually(lambda: process.rules.of("target") == Rules(None, None, is_paused=True), what="the pause")
    assert rows.statuses(database) == {"SUCCESS": 20, "QUEUED": 20}


def test_consumer_reads_no_rules_for_a_change_of_another_endpoint(
    database: Database, start_worker: StartWorker
) -> None:
    """Ten thousand rules take a tenth of a second to read; te-flow reads them twice a second at most."""
    _, process = start_worker(lambda attempt: attempt.complete(success({})), capacity=4)
    process.flow.stop()
    before = process.rules.revision
    rows.add_endpoint(database, "other")
    change(database, (PAUSE, {"name": "other"}))
    rows.add_executions(database, 20)
    process.inboxes.wake()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 20}, what="all executions to succeed")
    assert process.rules.revision == before


def test_process_drops_changes_that_the_database_has_lost(process: WorkerProcess) -> None:
    """A failover to a lagging replica loses changes; the next change then reuses a revision."""
    before = process.rules.revision
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the pause")
    process.database.fetch(text("UPDATE endpoints SET paused_at = NULL RETURNING 1"))
    process.database.fetch(text("UPDATE catalog_revision SET revision = revision - 1 WHERE id = 'flow' RETURNING 1"))
    eventually(lambda: process.rules.of("target") is None, what="the end of the pause")
    eventually(lambda: process.rules.revision == before, what="the revision of the database")
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the pause")


def test_te_flow_continues_after_a_failed_listener(process: WorkerProcess) -> None:
    failures: list[int] = []
    states_after: list[object] = []
    states_before: list[object] = []

    def fail(_state: object) -> None:
        failures.append(1)
        raise RuntimeError("no")

    process.flow.on_poll(states_after.append)  # the last listener is called first
    process.flow.on_poll(fail)
    process.flow.on_poll(states_before.append)
    process.breakers.hurry.set()
    eventually(lambda: len(failures) > 1 and states_after, what="a call of the listener after the failed listener")
    eventually(lambda: states_before, what="a call of the listener before the failed listener")
    change(process.database, (PAUSE, {"name": "target"}))
    eventually(lambda: process.rules.of("target"), what="the rules")


@pytest.mark.postgresql_only
def test_abort_does_not_wait_for_writes_of_te_flow(database: Database, database_url: str) -> None:
    states: list[FlowState] = []
    process = worker_process(database, db.connect(database_url, pool_size=1, application_name="te-test-lease"))
    process.flow.on_poll(states.append)
    process.bindings.bind("target", "http:host:80", 1000, has_turns=True).target.failed("target")
    with database.engine.connect() as connection, connection.begin():
        connection.execute(text("LOCK TABLE breaker_counts IN EXCLUSIVE MODE"))
        process.open(["http"])
        eventually(lambda: database.fetch(WAITING)[0].n == 1, what="te-flow to wait for the lock")
        assert len(states) == 1
    process.close()


@pytest.mark.postgresql_only
@pytest.mark.parametrize("statistics", ["fresh", "outdated"])
def test_poll_of_rules_reads_running_executions_by_the_index_of_aborts(database: Database, statistics: str) -> None:
    if statistics == "outdated":
        database.fetch(text("ANALYZE executions"))
    rows.add_executions(database, 3000)
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'wrk_1', started_at = now(), attempt_count = 1")
    )
    if statistics == "fresh":
        database.fetch(text("ANALYZE executions"))
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + FLOW_STATE.text), {"worker": "wrk_1"}))
    assert "idx_executions_aborts" in plan
    assert "Seq Scan on executions" not in plan


def test_invalid_rules_of_one_endpoint_do_not_affect_other_endpoints(limited: str, database: Database) -> None:
    for name, limits in {"odd": '{"rate": 7}', "odder": '{"rate": {"count": "x", "per": "1 fortnight"}}'}.items():
        rows.add_endpoint(database, name)
        database.fetch(SET, {"name": name, "limits": limits})
    rules = current_rules(database).by_endpoint
    assert {name: its.limits and its.limits.max_in_flight for name, its in rules.items()} == {
        limited: 3,
        "odd": None,
        "odder": None,
    }
