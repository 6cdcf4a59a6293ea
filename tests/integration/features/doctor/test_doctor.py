"""Command `flask doctor`: findings, suggested fixes, and repairs."""

import contextlib
import json
import os
import threading

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text
from sqlalchemy.schema import CreateTable

from app.features.dead_letters import redrives
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrives import REDRIVES, RedriveJob
from app.features.doctor import checks
from app.kernel.db import Database
from app.kernel.processes import process_heartbeat, worker_lease
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.queue.jobs.job_creation import Creator
from app.scheduler.chore import ChoreContext
from schema import schema_version
from schema.states import BulkJobStatus
from schema.tables import metadata
from tests import rows
from tests.integration.client import Api
from tests.integration.command_line import Cli, doctor_findings, flask_app
from tests.integration.registered import created, interval, one_shot, register, register_all
from tests.waiting import eventually

pytestmark = pytest.mark.reflection


def test_healthy_service_has_no_findings(api: Api, cli: Cli) -> None:
    register_all(api)
    created(api, interval())
    assert doctor_findings(cli, expect=0) == {}
    assert "no findings" in cli.run("doctor").stdout


def test_completion_events_without_handlers_run_are_reported(cli: Cli, database: Database) -> None:
    for end_id, age in (("att_1", "2 minutes"), ("att_2", "1 second")):
        rows.add_end(database, end_id, age)
    ((problem, found),) = doctor_findings(cli).items()
    assert problem.startswith("the handlers of 1 completion event have not run")
    assert (found["check"], found["fixable"]) == ("ends", False)


def test_stalled_bulk_jobs_are_reported(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    rows.add_letters(database, 60)
    database.fetch(text("UPDATE dead_letters SET failed_at = failed_at - INTERVAL '2 hours'"))
    abandoned, progressing, failing = (
        redrives.begin(database, LetterFilter(), to_endpoint=None, rate=1, actor=None).redrive_id for _ in range(3)
    )
    ago = "UPDATE redrives SET created_at = now() - INTERVAL '1 hour', {} WHERE redrive_id = :id"
    database.fetch(text(ago.format("held_until = NULL")), {"id": abandoned})
    database.fetch(text(ago.format("status = 'PAUSED'")), {"id": progressing})
    database.fetch(text(ago.format("""wanted = '{"failed_after": "?"}'""")), {"id": failing})
    creator = Creator(database, shards=1, look_ahead_ms=0)
    runner = BulkJobRunner(
        database=database,
        kind=RedriveJob(creator),
        scheduler_id="sched",
        hint=lambda _queue: None,
        stopping=lambda: False,
    )
    is_over = threading.Event()

    def run_until_over() -> None:
        while not is_over.wait(0.2):
            with contextlib.suppress(ValueError):
                runner.run()

    REDRIVES.change(database, progressing, BulkJobStatus.RUNNING)
    assert list(doctor_findings(cli)) == [f"no scheduler continues the redrive {abandoned}, the redrive {failing}"]
    REDRIVES.change(database, abandoned, BulkJobStatus.STOPPED)
    scheduler = threading.Thread(target=run_until_over)
    scheduler.start()
    try:
        eventually(lambda: database.fetch(text("SELECT 1 FROM redrives WHERE holder = 'sched'")))
        found = doctor_findings(cli)
    finally:
        is_over.set()
        scheduler.join()
    assert REDRIVES.get(database, progressing).redriven > 1, "one failing redrive does not stop the other redrive"
    reported = [problem for problem, each in found.items() if each["check"] == "bulk_jobs"]
    assert reported == [f"schedulers try to continue the redrive {failing} and fail"]


def test_inconsistent_states_are_reported_and_repaired(api: Api, cli: Cli, database: Database) -> None:
    worker_lease.register(database, worker_id="w1", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000)
    register(api)
    over, held, waits = (created(api, one_shot(key))["job_id"] for key in ("over", "held", "waits"))
    stalled, paused = created(api, interval(idempotency_key="s"))["job_id"], created(api, interval())["job_id"]
    for change, job in (
        ("executions SET status = 'SUCCESS', completed_at = now()", over),
        ("jobs SET created_at = now() - INTERVAL '2 minutes'", over),
        ("executions SET status = 'PENDING', on_hold = true", held),
        ("jobs SET fixed_delay = true, cron_next_run_at = NULL", stalled),
        ("jobs SET status = 'PAUSED', paused_at = now(), cron_next_run_at = NULL", paused),
    ):
        database.fetch(text(f"UPDATE {change} WHERE job_id = :job"), {"job": job})
    unheld = rows.add_tick(database, paused, "QUEUED")
    problems = [
        "1 one-shot job is over and not retired",
        "1 fixed-delay job has no next run",
        "1 job has executions on hold without a pause",
        "1 job is paused with executions that are not on hold",
    ]
    assert list(doctor_findings(cli)) == problems
    assert [each["repaired"] for each in doctor_findings(cli, "--fix", "--yes", expect=0).values()] == [1] * 4
    assert rows.execution(database, unheld).on_hold
    statuses = {row.job_id: row.status for row in database.fetch(text("SELECT job_id, status FROM jobs"))}
    expected = {over: "RETIRED", held: "ACTIVE", waits: "ACTIVE", stalled: "ACTIVE", paused: "PAUSED"}
    assert statuses == expected
    assert doctor_findings(cli, expect=0) == {}


def test_missing_index_or_table_is_reported_with_its_fix(cli: Cli, database: Database) -> None:
    database.fetch(text("DROP INDEX idx_executions_pickup"))
    ((problem, found),) = doctor_findings(cli).items()
    assert "idx_executions_pickup" in problem
    statement = found["fix"]
    assert statement.startswith("CREATE INDEX CONCURRENTLY idx_executions_pickup ON executions (queue, shard, run_at")
    database.fetch(text(statement))
    assert doctor_findings(cli, expect=0) == {}
    database.fetch(text("DROP TABLE gate_windows"))
    (problem,) = doctor_findings(cli)
    assert "gate_windows" in problem


def table_definitions() -> list[str]:
    return [str(CreateTable(table)) for table in metadata.sorted_tables]


def test_drifted_constraints_are_reported_with_their_fixes(cli: Cli, database: Database) -> None:
    whole = table_definitions()
    for change in (
        "executions DROP CONSTRAINT fk_executions_job",
        "jobs DROP CONSTRAINT fk_jobs_endpoint",
        "jobs ADD CONSTRAINT fk_jobs_endpoint FOREIGN KEY (job_id) REFERENCES endpoints (name) NOT VALID",
        "routes DROP CONSTRAINT chk_routes_position",
        "redrives DROP CONSTRAINT chk_redrives_status",
        "redrives ADD CONSTRAINT chk_redrives_status CHECK (status IN ('RUNNING', 'PAUSED', 'DONE'))",
        "executions DROP CONSTRAINT chk_executions_priority",
        "executions ADD CONSTRAINT chk_executions_priority CHECK (priority >= 0 AND priority <= 9)",
        "api_keys ADD CONSTRAINT chk_own CHECK (name <> 'x')",
    ):
        database.fetch(text(f"ALTER TABLE {change}"))
    found = doctor_findings(cli)
    assert {problem.partition(": ")[0] for problem in found} == {
        "the constraint fk_executions_job of executions is missing",
        "the constraint fk_jobs_endpoint of jobs differs from this code",
        "the constraint chk_routes_position of routes is missing",
        "the constraint chk_redrives_status of redrives differs from this code",
        "the constraint chk_executions_priority of executions differs from this code",
        "the constraint chk_own of api_keys is unknown to this code and may reject its rows",
        *([] if database.is_cockroach else ["the constraint fk_jobs_endpoint of jobs was never validated"]),
    }
    revision = "UPDATE alembic_version SET version_num = :to"
    database.fetch(text(revision), {"to": "9999"})
    reported = [problem for problem in doctor_findings(cli) if "was never validated" not in problem]
    assert reported == [f"the database is at revision 9999, which is newer than this code ({schema_version.head()})"]
    database.fetch(text(revision), {"to": schema_version.head()})
    for each in found.values():
        for step in each["fix"].removeprefix("unless you know what it is for, ").split("; "):
            if "never validated" not in each["problem"]:
                database.fetch(text(step))
    assert doctor_findings(cli, expect=0) == {}
    assert table_definitions() == whole, "the check changed the tables of this process"


def test_database_without_a_schema_gives_one_finding(empty_database_url: str) -> None:
    done = flask_app(empty_database_url, "doctor")
    assert done.exit_code == 1
    assert "db upgrade" in done.stdout
    assert "gate_windows" not in done.stdout
    assert flask_app("postgresql://nobody:hunter2@127.0.0.1:1/none", "doctor").exit_code == 5


def test_secrets_that_no_key_decrypts_are_named(api: Api, cli: Cli) -> None:
    register_all(api)
    expected = {
        Fernet.generate_key().decode(): "1 secret cannot be decrypted: token",
        "": "TE_SECRET_ENCRYPTION_KEY is not set here, so secrets cannot be checked",
    }
    for key, message in expected.items():
        ((problem, found),) = doctor_findings(cli, TE_SECRET_ENCRYPTION_KEY=key).items()
        assert problem == message
        assert not found["fixable"]
    key = Fernet.generate_key().decode()
    status = json.loads(cli.run("secrets", "status", "--json", expect=1, TE_SECRET_ENCRYPTION_KEY=key).stdout)
    assert (list(status["keys"].values()), status["unreadable"]) == ([0], ["token"])


def test_stalled_rows_are_reported_and_repaired(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    job = created(api, interval())["job_id"]
    lost, exhausted, waits = (rows.add_tick(database, job, status) for status in ("RUNNING", "RETRYING", "QUEUED"))
    pending = rows.add_tick(database, job, "PENDING")
    database.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '1 hour'"))
    use_up = "UPDATE executions SET attempt_count = 3 WHERE execution_id = :id"
    database.fetch(text(use_up), {"id": exhausted})
    database.fetch(text("UPDATE jobs SET cron_next_run_at = now() - INTERVAL '1 hour'"))
    found = doctor_findings(cli)
    assert [(each["check"], each["fixable"]) for each in found.values()] == [
        ("schedules", False),
        ("schedules", False),
        ("executions", True),
        ("queues", False),
        ("executions", True),
    ]
    overdue, late, gone, unserved, used_up = found
    assert "'http'" in unserved
    assert job in overdue
    assert "1 execution is due, but PENDING" in late
    assert "1 execution runs on a lost worker" in gone
    assert "1 execution waits with no attempt left" in used_up
    assert rows.execution(database, lost).status == "RUNNING", "doctor without --fix changes nothing"

    worker_lease.register(database, worker_id="w1", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000)
    assert "Repair 2 of 4 findings?" in cli.run("doctor", "--fix", expect=2).stderr
    assert rows.execution(database, lost).status == "RUNNING", "doctor without a confirmation changes nothing"
    fixed = doctor_findings(cli, "--fix", "--yes")
    assert [each["repaired"] for each in fixed.values()] == [None, None, 1, 1]
    by_id = {each: rows.execution(database, each).status for each in (lost, exhausted, waits, pending)}
    assert list(by_id.values()) == ["RETRYING", "FAILED", "QUEUED", "PENDING"]
    assert len(doctor_findings(cli)) == 2, "two findings need a running scheduler"


@pytest.mark.postgresql_only
def test_invalid_index_and_dead_rows_are_reported(cli: Cli, database: Database) -> None:
    database.fetch(text("CREATE INDEX idx_broken ON workers (pid)"))
    database.fetch(text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_broken'::regclass"))
    (problem,) = doctor_findings(cli)
    assert "idx_broken is invalid" in problem
    database.fetch(text("DROP INDEX idx_broken"))
    context = ChoreContext(database, cli.settings, hint=lambda _queue: None, stopping=lambda: False)
    found = list(checks.bloat(context, min_dead=0, dead_share=0))
    assert any(each.fix.startswith("VACUUM (ANALYZE) executions") for each in found)


def test_missing_scheduler_is_reported_before_anything_is_late(cli: Cli, database: Database) -> None:
    first, second = (Component("default", ProcessKind.SCHEDULER, name) for name in ("first", "second"))
    for each in (first, second):
        process_heartbeat.beat(database, each)
    process_heartbeat.leave(database, first)
    assert doctor_findings(cli, expect=0) == {}
    silent = "UPDATE region_heartbeats SET last_beat_at = now() - INTERVAL '{} minutes' WHERE component = :id"
    database.fetch(text(silent.format(2)), {"id": first.name})
    database.fetch(text(silent.format(1)), {"id": second.name})
    (problem,) = doctor_findings(cli)
    assert problem.startswith(f"no scheduler is alive; the last one, {second.id}")
    assert " fell silent at 20" in problem


def test_wrong_clocks_are_reported_by_host(cli: Cli, database: Database) -> None:
    def beat(name: str, host: str, ahead_ms: float, bound_ms: float, *, silent: bool = False) -> None:
        component = Component("default", ProcessKind.WEB, name)
        process_heartbeat.beat(database, component)
        metadata = json.dumps({"host": host, "ahead": ahead_ms, "bound": bound_ms})
        change = """UPDATE region_heartbeats SET metadata = metadata || CAST(:metadata AS JSONB),
                           last_beat_at = now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'
                     WHERE component = :component RETURNING 1"""
        params = {"metadata": metadata, "seconds": 60 if silent else 0, "component": component.name}
        database.fetch(text(change), params)

    beat("fine", "a", 900, 1)
    beat("unsure", "b", 2500, 1600)  # the clock may be less than 1 s ahead: 2.5 s, give or take 1.6 s
    beat("gone", "c", 60_000, 1, silent=True)
    assert doctor_findings(cli, expect=0) == {}
    beat("fast", "d", 2500, 1400)
    beat("faster", "d", 3500, 2)
    beat("slow", "e", -1200, 2)
    found = doctor_findings(cli)
    pid = os.getpid()
    assert list(found) == [
        f"the clock of d is 3.5 s ahead of the database's: web fast (pid {pid}), web faster (pid {pid})",
        f"the clock of e is 1.2 s behind the database's: web slow (pid {pid})",
    ]
    assert {each["check"] for each in found.values()} == {"clocks"}
    assert all("run NTP" in each["fix"] for each in found.values())


def test_different_versions_of_the_time_zone_rules_are_reported(cli: Cli, database: Database) -> None:
    def beat(kind: ProcessKind, name: str, version: str | None) -> None:
        component = Component("default", kind, name)
        process_heartbeat.beat(database, component)
        change = """UPDATE region_heartbeats SET metadata = metadata || CAST(:metadata AS JSONB)
                     WHERE component = :component RETURNING 1"""
        metadata = json.dumps({"tzdata_version": version, "host": "a"})
        database.fetch(text(change), {"metadata": metadata, "component": component.name})

    beat(ProcessKind.WEB, "one", "2026.6")
    beat(ProcessKind.SCHEDULER, "two", "2026.6")
    beat(ProcessKind.WORKER, "older", None)
    assert doctor_findings(cli, expect=0) == {}
    beat(ProcessKind.WORKER, "three", "2026.5")
    ((problem, found),) = doctor_findings(cli).items()
    rules = "2026.5 in worker three on a; 2026.6 in scheduler two on a, web one on a"
    assert problem == f"processes use different versions of tzdata: {rules}"
    assert found["check"] == "time zones"
