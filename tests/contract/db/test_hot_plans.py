"""Cached plans of hot statements are right for tables of every size, or are replaced."""

import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from app.kernel import db, ids
from app.kernel.db import Database
from app.kernel.db.hot import PlanTimes
from app.kernel.formats import EPOCH, array_literal
from app.queue.claiming.claimable_queues import claimable_of, claimable_queues
from app.queue.claiming.due_queues import QUEUES, due_queues
from app.queue.claiming.full_scan import FullScan
from app.queue.claiming.poll import poll
from app.queue.ending import outbox_rows
from app.queue.executions import on_hold, repairs
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim
from app.queue.executions.materialization import due
from app.queue.executions.promotion import promote
from app.queue.executions.reclaim_candidates import candidates
from app.queue.jobs.job_batch import create_many
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from brokers.flow_state import read_flow_state
from schema.states import Trigger
from tests import rows
from tests.cases import Breaches
from tests.claiming import TARGET, take
from tests.contract.features.limits.limited_plans import (
    assert_limited_claim_reads_only_its_partitions_and_the_running_executions_under_a_concurrency_limit,
)
from tests.contract.store.metric_plans import assert_metrics_are_read_by_indexes_alone
from tests.plans import (
    MANY,
    PREPARED,
    WORKER,
    all_completed,
    all_delayed,
    all_due,
    all_running,
    never_analysed,
    plans,
    single_connection,
)
from tests.verdicts import success

__all__ = ["single_connection"]  # a fixture

LATER = datetime(2099, 1, 1, tzinfo=UTC)


def claimed(single_connection: Database, limit: int = 1) -> list[Claim]:
    return take(single_connection, WORKER, limit, partitions=(TARGET,)).claims


def run_all(single_connection: Database) -> int:
    """Run each hot statement once, most of them for one job; return the number of completed executions."""
    creator = Creator(single_connection, shards=1, look_ahead_ms=5000)
    creator.create(NewJob(endpoint="target", trigger=Trigger.IMMEDIATE, input={}))
    create_many(creator, [NewJob(endpoint="target", trigger=Trigger.DELAYED, input={}, run_at=LATER)] * 2)
    claims = claimed(single_connection)
    for partitions in (1, 4, 16):
        take(single_connection, WORKER, 1, partitions=(TARGET,) * partitions)
    for shard_count in (1, 16):
        poll(single_connection, queue="http", since=[EPOCH] * shard_count, horizon_ms=250)
    FullScan(1).step(single_connection, "http")
    _run_idle(single_connection)
    verdict = success({})
    ended = [Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ()) for claim in claims]
    return len(complete(single_connection, WORKER, ended))


def _run_idle(single_connection: Database) -> None:
    """Run each statement that idle schedulers and workers repeat."""
    due(single_connection, ahead_ms=0, limit=9)
    promote(single_connection, shard=0, ahead_ms=0, limit=9)
    on_hold.hold_retries(single_connection)
    outbox_rows.waiting(single_connection, {0: EPOCH})
    due_queues(single_connection, ["http"], EPOCH, 250)
    claimable_queues(single_connection, 1)
    claimable_of(single_connection, ["http"], 1)
    candidates(single_connection, limit=9)
    read_flow_state(single_connection, WORKER)


@pytest.mark.postgresql_only
@pytest.mark.parametrize("state", [never_analysed, all_due, all_delayed, all_completed, all_running])
def test_statements_find_their_rows_by_indexes_in_tables_of_each_kind(
    database: Database, single_connection: Database, database_url: str, state: Callable[[Database], None]
) -> None:
    """One test for all checks, because the rows take longer; claims come last."""
    state(database)
    with Breaches() as breaches:
        with breaches.case("metrics"):
            assert_metrics_are_read_by_indexes_alone(database)
        if state is not never_analysed:
            with breaches.case("exhausted executions"):
                assert_exhausted_executions_are_read_in_the_order_of_their_index(database)
        with breaches.case("hot statements"):
            assert_generic_plan_uses_keys_and_the_index_of_claims(single_connection)
        # A few executions are claimed and completed by now; the statistics are still those of `state`.
        another = db.connect(database_url, pool_size=1, application_name="te-another")
        with breaches.case("limited claim"), closing(another):
            assert_limited_claim_reads_only_its_partitions_and_the_running_executions_under_a_concurrency_limit(
                database, another
            )


def assert_exhausted_executions_are_read_in_the_order_of_their_index(database: Database) -> None:
    params = {"queue": "", "shard": -1, "run_at": EPOCH, "id": "", "limit": 100}
    plan = "\n".join(line[0] for line in database.fetch(text("EXPLAIN " + repairs.EXHAUSTED.text), params))
    assert "Index Scan using idx_executions_pickup" in plan
    assert "Seq Scan" not in plan


def assert_generic_plan_uses_keys_and_the_index_of_claims(single_connection: Database) -> None:
    assert run_all(single_connection) == 1
    found = plans(single_connection)
    creation = {"jobs_target", "jobs_create_one_shot", "jobs_create_one_shots"}
    polls = {"executions_poll_1", "executions_poll_16"}
    partitions = polls | {
        "executions_claim_1",
        "executions_claim_4",
        "executions_claim_16",
        "executions_next_partitions",
    }
    idle = {f"executions_{name}" for name in ("due_jobs", "due_queues", "promote", "retries_of_paused_jobs")}
    idle |= {"executions_next_queue", "executions_claimable_of_queues", "executions_lost"}
    idle |= {"execution_ends_waiting", "flow_state"}
    assert set(found) == creation | partitions | idle | {"executions_complete"}
    for name, plan in found.items():
        assert not re.search(r"Seq Scan on (executions|jobs)", plan), plan
        assert "Sort" not in plan or name in polls | idle, plan
    # A nested loop would compare each job of a batch with each other job.
    assert re.search(r"Hash Cond: \(\w+\.job_id = \w+\.job_id\)", found["jobs_create_one_shots"])
    for arms in (1, 4, 16):
        claim = found[f"executions_claim_{arms}"]
        assert re.findall(r"using (\w+) on executions(?! e )", claim) == ["idx_executions_lanes"] * arms, claim
        assert len(re.findall(r"\(priority = \$\d+\) AND \(run_at >= \$\d+\) AND \(run_at <= ", claim)) == arms, claim
        assert "using pk_executions on executions e" in claim, claim
    for shard_count in (1, 16):
        plan = found[f"executions_poll_{shard_count}"]
        assert re.findall(r"using (\w+) on executions", plan) == ["idx_executions_pickup"] * 2 * shard_count, plan
        assert plan.count("Index Scan Backward using idx_executions_pickup") == shard_count, plan
    check = found["executions_due_queues"]
    assert re.findall(r"Index (?:Only )?Scan using (\w+) on executions", check) == ["idx_executions_pickup"] * QUEUES, (
        check
    )
    hops = found["executions_next_partitions"]
    assert re.findall(r"Index Only Scan using (\w+) on executions", hops) == ["idx_executions_lanes"] * 16, hops
    assert len(re.findall(r"Index Cond: .*ROW\(endpoint, limit_key, priority\) > .*ROW\(endpoint", hops)) == 16, hops
    assert "Index Scan using pk_executions" in found["executions_complete"], found["executions_complete"]
    assert "idx_executions_running" not in found["executions_complete"]


@pytest.mark.postgresql_only
@pytest.mark.parametrize("waiting", [0, MANY // 10])
def test_batch_of_events_is_taken_in_linear_time(database: Database, waiting: int) -> None:
    """A join expects one row of the outbox, and would compare each of 200 events with each."""
    columns = "end_id, shard, execution_id, endpoint, status, attempt, followed, ended_at"
    values = "'e' || n, 0, 'exec_1', 'target', 'SUCCESS', 1, 1, now() FROM generate_series(1, :count) AS n"
    database.fetch(text(f"INSERT INTO execution_ends ({columns}) SELECT {values}"), {"count": waiting})
    database.fetch(text("ANALYZE execution_ends"))
    given = {"ids": array_literal(f"e{number}" for number in range(200)), "limit": 200}
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + outbox_rows.TAKE.text), given))
    assert "Join" not in plan, plan
    assert "Nested Loop" not in plan, plan


@pytest.mark.postgresql_only
def test_plan_of_a_small_table_is_replaced_after_two_slow_answers(
    database: Database, single_connection: Database
) -> None:
    """PostgreSQL itself replaces the plan only at the next ANALYZE of the table, possibly a minute later."""
    database.fetch(text("ALTER TABLE executions SET (autovacuum_enabled = false)"))  # it analyses the table, too
    rows.add_executions(database, 5)
    database.fetch(text("ANALYZE"))
    claimed(single_connection)
    rows.add_executions(database, MANY)
    assert "Seq Scan on executions" in plans(single_connection)["executions_claim_1"]
    single_connection.plan_times = PlanTimes(slow_seconds=0.0, kept_seconds=0.0)
    for _ in range(3):
        claimed(single_connection)
    assert "Seq Scan on executions" not in plans(single_connection)["executions_claim_1"]


@pytest.mark.postgresql_only
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE executions ADD COLUMN more TEXT NOT NULL DEFAULT 'x'",
        "ALTER TABLE jobs ADD CONSTRAINT chk_more CHECK (job_id <> '') NOT VALID",
        "CREATE INDEX idx_more ON executions (queue, shard, run_at)",
        "DROP INDEX idx_executions_pickup",
        "DROP INDEX idx_executions_running_lanes",
        "ANALYZE",
    ],
)
def test_migration_changes_plans_but_no_answer(database: Database, single_connection: Database, change: str) -> None:
    assert run_all(single_connection) == 1
    names = single_connection.fetch(PREPARED)
    database.fetch(text(change))
    for _ in range(2):
        assert run_all(single_connection) == 1
    assert single_connection.fetch(PREPARED) == names
