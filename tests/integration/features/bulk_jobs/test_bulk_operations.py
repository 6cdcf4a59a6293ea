"""Bulk operations in the API: preview, start, control, and invalid requests."""

from typing import Any

from app.features.bulk_jobs.operation_job import OperationJob
from app.kernel.db import Database
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.queue.jobs.job_creation import Creator
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, one_shot, register


def run(database: Database) -> None:
    """Run all batches of the bulk jobs, as the scheduler does every second."""
    kind = OperationJob(Creator(database, shards=1, look_ahead_ms=0))
    BulkJobRunner(
        database=database, kind=kind, scheduler_id="one", hint=lambda _queue: None, stopping=lambda: False
    ).run()


def test_bulk_operation_is_previewed_started_paused_and_resumed(api: Api, database: Database) -> None:
    register(api)
    matching = created(api, one_shot("matching", labels={"team": "a"}))["execution"]["execution_id"]
    created(api, one_shot("other"))
    body = {"action": "cancel", "wanted": {"labels": {"team": "a"}, "created_after": "2020-01-01T00:00:00Z"}}
    preview = api.post("/bulk-operations/preview", body).json
    assert (preview["count"], preview["is_complete"], [each["execution_id"] for each in preview["sample"]]) == (
        1,
        True,
        [matching],
    )
    started = api.post("/bulk-operations", body)
    assert started.status_code == 202
    path = f"/bulk-operations/{started.json['operation_id']}"
    shown = {name: started.json[name] for name in ("action", "status", "rate", "actor", "wanted", "run_at")}
    assert shown == body | {"status": "RUNNING", "rate": 100, "actor": "test", "run_at": None}
    assert [api.post(f"{path}/{verb}").json["status"] for verb in ("pause", "resume")] == ["PAUSED", "RUNNING"]
    run(database)
    completed = api.get(path).json
    assert (completed["status"], completed["changed"], completed["refused"]) == ("DONE", 1, 0)
    assert api.get(f"/executions/{matching}").json["status"] == "CANCELLED"
    problem(api.post(f"{path}/stop"), 409, "CONFLICT")
    history = api.get(f"/executions/{matching}/history").json["items"]
    assert (history[-1]["reason"], history[-1]["actor"]) == ("CANCELLED", "test")


def test_dead_letters_are_archived_with_a_note(api: Api, database: Database) -> None:
    register(api)
    matching = rows.add_letter(database, error_type="TIMEOUT")
    other = rows.add_letter(database, error_type="HTTP_ERROR")
    wanted = {"error_type": "TIMEOUT", "failed_after": "2020-01-01T00:00:00Z"}
    body = {"action": "archive", "wanted": wanted, "note": "The customer was deleted."}
    preview = api.post("/bulk-operations/preview", body).json
    shown = api.get(f"/dead-letters/{matching}").json
    assert (preview["count"], [each["execution_id"] for each in preview["sample"]]) == (1, [shown["execution_id"]])
    started = api.post("/bulk-operations", body).json
    assert (started["note"], started["wanted"]) == (body["note"], wanted)
    run(database)
    assert api.get(f"/bulk-operations/{started['operation_id']}").json["changed"] == 1
    shown = api.get(f"/dead-letters/{matching}").json
    assert (shown["resolution"], shown["resolved_by"], shown["note"]) == ("ARCHIVED", "test", body["note"])
    assert [each["letter_id"] for each in api.get("/dead-letters").json["items"]] == [other]
    assert api.post(f"/executions/{shown['execution_id']}/retry").status_code == 409


def test_rescheduled_job_shows_its_new_time_and_reason(api: Api, database: Database) -> None:
    register(api)
    job = created(api, one_shot("matching", trigger="DELAYED", run_at="2099-01-01T00:00:00Z"))
    matching = job["execution"]["execution_id"]
    assert job["run_at"] == "2099-01-01T00:00:00Z"
    body = {"action": "reschedule", "wanted": {"endpoint": "target"}, "run_at": "2100-01-01T00:00:00Z"}
    assert api.post("/bulk-operations", body).json["run_at"] == "2100-01-01T00:00:00Z"
    run(database)
    shown = api.get(f"/executions/{matching}").json
    assert (shown["status"], shown["run_at"], shown["scheduled_at"]) == ("PENDING", body["run_at"], body["run_at"])
    assert api.get(f"/jobs/{job['job_id']}").json["run_at"] == body["run_at"]
    assert api.get(f"/jobs/{job['job_id']}/next-runs").json["runs"][0]["run_at"] == body["run_at"]
    api.post("/bulk-operations", body | {"run_at": "2020-01-01T00:00:00Z"})
    run(database)
    history = api.get(f"/executions/{matching}/history").json["items"]
    assert [(step["to"], step["reason"]) for step in history] == [
        *(("PENDING", "CREATED"), ("PENDING", "RESCHEDULED"), ("QUEUED", "RESCHEDULED")),
    ]


def test_schedules_of_a_filter_are_paused_and_resumed(api: Api, database: Database) -> None:
    register(api)
    matching = created(api, cron(labels={"team": "a"}, name="report"))
    other, once = created(api, cron()), created(api, one_shot("once", labels={"team": "a"}))
    waiting = rows.add_tick(database, matching["job_id"])

    def statuses() -> list[str]:
        return [api.get(f"/jobs/{job['job_id']}").json["status"] for job in (matching, other, once)]

    for action, before, after in (("pause", "ACTIVE", "PAUSED"), ("resume", "PAUSED", "ACTIVE")):
        body = {"action": action, "wanted": {"labels": {"team": "a"}}}
        preview = api.post("/bulk-operations/preview", body).json
        assert (preview["count"], preview["sample"], preview["is_complete"]) == (1, [], True)
        assert [(each["job_id"], each["name"], each["status"]) for each in preview["jobs"]] == [
            (matching["job_id"], "report", before)
        ]
        started = api.post("/bulk-operations", body).json
        run(database)
        ended = api.get(f"/bulk-operations/{started['operation_id']}").json
        assert (ended["status"], ended["changed"], ended["refused"]) == ("DONE", 1, 0)
        assert statuses() == [after, "ACTIVE", "ACTIVE"]
    history = api.get(f"/executions/{waiting}/history").json["items"]
    assert [(step["reason"], step["actor"]) for step in history[-2:]] == [
        ("JOB_PAUSED", "test"),
        ("JOB_RESUMED", "test"),
    ]


def test_filter_without_matches_is_done_at_once(api: Api, database: Database) -> None:
    rows.add_executions(database, endpoint=rows.add_endpoint(database))
    for action in ("cancel", "retry"):
        started = api.post("/bulk-operations", {"action": action, "wanted": {"endpoint": "nobody"}}).json
        run(database)
        completed = api.get(f"/bulk-operations/{started['operation_id']}").json
        assert (completed["status"], completed["changed"], completed["reached_at"]) == ("DONE", 0, None)
    everything = {"action": "cancel", "wanted": {}, "all": True}
    assert api.post("/bulk-operations/preview", everything).json["count"] == 1


TARGET_FILTER = {"endpoint": "target"}


@each_case(
    ("body", "pointer"),
    [
        ({"action": "cancel"}, "/wanted"),
        ({"action": "delete", "wanted": TARGET_FILTER}, "/action"),
        ({"action": "cancel", "wanted": {}}, "/all"),
        ({"action": "retry", "wanted": {"status": "FAILED"}}, "/all"),
        ({"action": "retry", "wanted": {"labels": {}}}, "/all"),
        ({"action": "retry", "wanted": TARGET_FILTER, "all": True}, "/all"),
        ({"action": "retry", "wanted": {"status": "QUEUED", **TARGET_FILTER}}, "/wanted/status"),
        ({"action": "cancel", "wanted": {"status": "SUCCESS", **TARGET_FILTER}}, "/wanted/status"),
        ({"action": "cancel", "wanted": {"status": "RUNNING", **TARGET_FILTER}}, "/if_running"),
        ({"action": "retry", "wanted": TARGET_FILTER, "if_running": "abort"}, "/if_running"),
        ({"action": "retry", "wanted": TARGET_FILTER, "delay_seconds": 1}, "/delay_seconds"),
        ({"action": "reschedule", "wanted": TARGET_FILTER}, "/run_at"),
        (
            {"action": "reschedule", "wanted": TARGET_FILTER, "run_at": "2100-01-01T00:00:00Z", "delay_seconds": 1},
            "/delay_seconds",
        ),
        ({"action": "reschedule", "wanted": TARGET_FILTER, "spread_seconds": 10**9}, "/spread_seconds"),
        ({"action": "cancel", "wanted": {"nope": 1}}, "/wanted/nope"),
        ({"action": "archive", "wanted": TARGET_FILTER}, "/note"),
        ({"action": "archive", "wanted": TARGET_FILTER, "note": ""}, "/note"),
        ({"action": "archive", "wanted": {}, "note": "gone"}, "/all"),
        ({"action": "archive", "wanted": {"queue": "http", **TARGET_FILTER}, "note": "gone"}, "/wanted/queue"),
        ({"action": "archive", "wanted": {"status": "FAILED", **TARGET_FILTER}, "note": "gone"}, "/wanted/status"),
        ({"action": "retry", "wanted": {"group": "0123456789abcdef"}}, "/wanted/group"),
        ({"action": "pause", "wanted": {"status": "QUEUED", **TARGET_FILTER}}, "/wanted/status"),
        ({"action": "resume", "wanted": {"limit_key": "acme", **TARGET_FILTER}}, "/wanted/limit_key"),
        ({"action": "pause", "wanted": {}}, "/all"),
        ({"action": "retry", "wanted": TARGET_FILTER, "note": "gone"}, "/note"),
        ({"action": "cancel", "wanted": TARGET_FILTER, "rate": 0}, "/rate"),
    ],
)
def test_invalid_field_of_a_bulk_operation_is_named(shared_api: Api, body: Any, pointer: str) -> None:
    for path in ("/bulk-operations", "/bulk-operations/preview"):
        assert pointers(problem(shared_api.post(path, body), 400, "INVALID_REQUEST")) == [pointer]
