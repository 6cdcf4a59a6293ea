"""Configs of an execution: all attempts use the configs of the first claim, until a manual retry."""

import pytest
from sqlalchemy import text

from app.catalog.loader import Catalog
from app.catalog.named_table import CONFIGS
from app.kernel import ids
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.verdict import Verdict
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import release, take
from tests.contract.scheduler.conftest import chores
from tests.verdicts import success

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
AN_HOUR_AGO = text("UPDATE superseded_configs SET superseded_at = now() - INTERVAL '61 minutes'")


@pytest.fixture(autouse=True)
def endpoint(database: Database) -> None:
    CONFIGS.create(database, "conf", {"base": "https://one.example"}, AuditedChange(SYSTEM))
    spec = {"url": "{{config.base}}/", "method": "POST"}
    rows.add_endpoint(database, "configured", spec=spec, config_ref="conf", retry_policy={"max_attempts": 3})


def change(database: Database, base: str) -> None:
    CONFIGS.replace(database, "conf", {"base": base}, AuditedChange(SYSTEM))


def add(database: Database) -> str:
    (execution_id,) = rows.add_executions(database, endpoint="configured", max_attempts=3)
    return execution_id


def claimed(process: WorkerProcess) -> Claim:
    (claim,) = take(process.database, process.worker_id, 1).claims
    return claim


def host(database: Database, claim: Claim) -> str:
    """Prepare the attempt with an empty cache, as a new worker does; return the name of the target's host."""
    catalog = Catalog(database, None, config_ttl_seconds=60, secret_ttl_seconds=60)
    url: str = catalog.prepare(claim.endpoint, 1, claim.input, claim.config_revision).spec["url"]
    return url.removeprefix("https://").removesuffix(".example/")


def complete_claim(process: WorkerProcess, claim: Claim, verdict: Verdict) -> None:
    complete(
        process.database, process.worker_id, [Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ())]
    )


def superseded_count(database: Database) -> int:
    count: int = database.fetch(text("SELECT count(*) AS n FROM superseded_configs"))[0].n
    return count


def test_retry_uses_the_config_of_the_first_attempt(process: WorkerProcess) -> None:
    database = process.database
    add(database)
    first = claimed(process)
    change(database, "https://two.example")
    complete_claim(process, first, Verdict.retry(ERROR, 0))
    second = claimed(process)
    assert (first.attempt, second.attempt) == (1, 2)
    assert [host(database, claim) for claim in (first, second)] == ["one", "one"]
    add(database)
    assert host(database, claimed(process)) == "two"


def test_claim_after_a_release_uses_the_current_config(process: WorkerProcess) -> None:
    database = process.database
    add(database)
    release(database, process.worker_id, [claimed(process).key])
    change(database, "https://two.example")
    assert host(database, claimed(process)) == "two"


def test_manual_retry_uses_the_current_config(process: WorkerProcess) -> None:
    database = process.database
    execution_id = add(database)
    complete_claim(process, claimed(process), Verdict.fail(ERROR))
    change(database, "https://two.example")
    retry_execution(database, execution_id, actor=None)
    retried = claimed(process)
    change(database, "https://three.example")
    complete_claim(process, retried, Verdict.retry(ERROR, 0))
    assert [host(database, retried), host(database, claimed(process))] == ["two", "two"]


def test_execution_without_a_recorded_config_keeps_the_config_of_its_next_claim(process: WorkerProcess) -> None:
    """Releases before config snapshots recorded no config with a claim."""
    database = process.database
    add(database)
    database.fetch(text("UPDATE executions SET status = 'RETRYING', attempt_count = 1"))
    change(database, "https://two.example")
    second = claimed(process)
    change(database, "https://three.example")
    complete_claim(process, second, Verdict.retry(ERROR, 0))
    assert [host(database, second), host(database, claimed(process))] == ["two", "two"]


def test_superseded_config_is_kept_while_an_unfinished_execution_uses_it(process: WorkerProcess) -> None:
    database = process.database
    change(database, "https://two.example")
    for _ in range(2):
        add(database)
    early = claimed(process)
    change(database, "https://three.example")
    late = claimed(process)
    for base in ("four", "five"):
        change(database, f"https://{base}.example")
    add(database)  # unclaimed, so it uses no config yet

    assert chores(database, batch=1).prune_configs()["values"] == 0  # a concurrent claim may use a recent config
    database.fetch(AN_HOUR_AGO)
    assert (chores(database, batch=1).prune_configs()["values"], superseded_count(database)) == (1, 3)
    assert [host(database, claim) for claim in (early, late)] == ["two", "three"]
    complete_claim(process, early, success({}))
    assert (chores(database, batch=1).prune_configs()["values"], superseded_count(database)) == (1, 2)
    assert host(database, late) == "three"
    complete_claim(process, late, success({}))
    assert (chores(database, batch=1).prune_configs()["values"], superseded_count(database)) == (2, 0)
    assert host(database, claimed(process)) == "five"


def test_stopping_scheduler_deletes_no_config(process: WorkerProcess) -> None:
    add(process.database)
    claim = claimed(process)
    change(process.database, "https://two.example")
    process.database.fetch(AN_HOUR_AGO)
    assert chores(process.database, stopping=lambda: True).prune_configs()["values"] == 0
    assert host(process.database, claim) == "one"
