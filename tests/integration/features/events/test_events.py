"""List of events, and the stream through the test client, which cannot keep a connection open."""

import json
from datetime import timedelta

from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.executions.worker import claim, end
from tests.integration.features.events.event_pages import events
from tests.integration.registered import created, cron, one_shot, register
from tests.waiting import eventually

ERROR = {"type": "TIMEOUT", "message": "no answer", "retryable": True}


def test_events_are_listed_in_order_with_their_details(api: Api, database: Database, execution_id: str) -> None:
    job_id = api.get(f"/executions/{execution_id}").json["job_id"]
    end(database, claim(database), Verdict(ExecutionStatus.RETRYING, 0, None, ERROR))
    end(database, claim(database), Verdict(ExecutionStatus.FAILED, None, None, ERROR))
    assert api.post(f"/executions/{execution_id}/retry").status_code == 200
    end(database, claim(database), Verdict(ExecutionStatus.SUCCESS, None, {"status_code": 200}, None))
    repeating = created(api, cron())["job_id"]
    cancelled = created(api, one_shot("cancelled"))
    assert api.post(f"/jobs/{cancelled['job_id']}/cancel").status_code == 200
    assert api.send("PATCH", "/endpoints/target", json={"priority": 3}).status_code == 200
    rows.add_breaker(database, "http:host:80", "open")
    eventually(lambda: api.get("/events", kind="catalogue").json["items"][1:])
    all_ = events(api)
    kinds = [event["kind"] for event in all_ if event["job_id"] == job_id]
    assert kinds == [
        "job.created",
        "attempt.failed",
        "execution.failed",
        "execution.retried",
        "execution.succeeded",
    ]
    assert [event["event_id"] for event in all_] == [event["event_id"] for event in events(api, limit=200)]
    failed = next(event for event in all_ if event["kind"] == "execution.failed")
    assert failed["details"] == {"attempt": 2, "worker_id": "wrk_1", "duration_ms": 0, "error": "TIMEOUT"}
    assert (failed["endpoint"], failed["execution_id"]) == ("target", execution_id)
    assert [event["job_id"] for event in events(api, kind="job", job_id=repeating)] == [repeating]
    assert [event["kind"] for event in events(api, job_id=cancelled["job_id"])] == [
        "job.created",
        "execution.cancelled",
    ]
    changed = events(api, kind="catalogue.changed,worker", endpoint="target")
    assert [event["details"]["action"] for event in changed] == ["create", "flow"]
    assert [event["subject"] for event in events(api, kind="worker.started")] == ["wrk_1"]
    assert "api_key" not in {event["details"].get("resource_type") for event in all_}
    last = all_[-1]["event_id"]
    assert events(api, after=last) == []


def test_events_are_inferred_from_attempts_without_an_outcome(
    api: Api,
    database: Database,
    execution_id: str,
) -> None:
    """Processes of an older release, which also run during an upgrade, do not store the outcome of an attempt."""
    cancelled = created(api, one_shot("cancelled"))["execution"]["execution_id"]
    for each in [claim(database) for _ in range(2)]:
        end(database, each, Verdict(ExecutionStatus.RETRYING, 0, None, ERROR))
    claimed = [claim(database) for _ in range(2)]
    assert api.post(f"/executions/{cancelled}/cancel?if_running=request").status_code == 202
    for each in claimed:
        status = ExecutionStatus.RETRYING if each.execution_id == cancelled else ExecutionStatus.FAILED
        end(database, each, Verdict(status, 0, None, ERROR))
    database.fetch(text("UPDATE attempts SET led_to = NULL RETURNING attempt_id"))
    # Two of each execution, and the request to cancel. The horizon may pass each of them alone.
    found = eventually(lambda: (listed := events(api, kind="attempt,execution"))[4:] and listed)
    for failed_id, last in ((execution_id, "execution.failed"), (cancelled, "execution.cancelled")):
        kinds = [
            event["kind"]
            for event in found
            if event["execution_id"] == failed_id and not event["details"].get("reason")
        ]
        assert kinds == ["attempt.failed", last]


def test_ends_of_repeating_jobs_are_events_and_labels_filter_events(api: Api, database: Database) -> None:
    register(api)
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    labels = {"team": "billing", "env": "prod"}
    cancelled, ended_job, other = (
        created(api, cron(labels=each))["job_id"] for each in (labels, labels, {"team": "a"})
    )
    assert api.post(f"/jobs/{cancelled}/cancel").status_code == 200
    assert api.post(f"/jobs/{cancelled}/cancel").status_code == 200, "a repeated cancel changes nothing"
    assert api.post(f"/jobs/{ended_job}/pause").status_code == 200
    database.fetch(text("UPDATE jobs SET cron_ends_at = now() WHERE job_id = :id RETURNING job_id"), {"id": ended_job})
    assert api.post(f"/jobs/{ended_job}/resume").status_code == 200
    assert api.send("PUT", f"/jobs/{other}", json={"cron": "@daily"}).status_code == 200, "an updated job has not ended"
    single = created(api, one_shot("once", labels=labels))
    end(database, claim(database), Verdict(ExecutionStatus.SUCCESS, None, {"status_code": 200}, None))
    last = eventually(lambda: api.get("/events", kind="execution", job_id=single["job_id"]).json["items"])[0]
    ended = [event for event in events(api, labels="team=billing,env=prod") if event["kind"] == "job.ended"]
    assert [(event["job_id"], event["details"]["reason"]) for event in ended] == [
        (cancelled, "CANCELLED"),
        (ended_job, "NO_TICK_LEFT"),
    ]
    found = events(api, labels="team=billing")
    assert [event["kind"] for event in found] == 2 * ["job.created"] + 2 * ["job.ended"] + [
        "job.created",
        "execution.succeeded",
    ]
    assert found[-1] == last
    assert [event["kind"] for event in events(api, kind="job", labels="team=a")] == ["job.created", "job.updated"]
    assert events(api, labels="team=billing,env=") == []


def test_stream_without_a_kept_connection_sends_the_stored_events(api: Api, execution_id: str) -> None:
    first = eventually(lambda: api.get("/events", kind="job").json["items"])[0]
    begin = api.get("/events", kind="job", since="1970-01-02T00:00:00Z")
    assert begin.json["items"] == [first]
    position_before = first["event_id"].partition("-")[0]
    stream = api.send("GET", f"/events?after={position_before}", headers={"Accept": "text/event-stream"})
    assert (stream.status_code, stream.mimetype) == (200, "text/event-stream")
    sent = stream.get_data(as_text=True)
    assert sent.startswith("retry: 1000\nid: ")
    data = [json.loads(line.removeprefix("data: ")) for line in sent.splitlines() if line.startswith("data: ")]
    assert first in data
    assert f"id: {first['event_id']}\nevent: job.created\n" in sent
    assert execution_id


def test_position_older_than_the_retention_is_410(api: Api, database: Database) -> None:
    long_ago = rows.database_now(database) - timedelta(days=31)
    for headers, query in (({}, f"?after={int(long_ago.timestamp() * 1e6)}"), ({"Last-Event-ID": "1-a-att_1"}, "")):
        sent = headers | ({"Accept": "text/event-stream"} if headers else {})
        problem(api.send("GET", f"/events{query}", headers=sent), 410, "EVENTS_EXPIRED")


def test_position_ahead_of_the_clock_is_410_with_a_hint(api: Api, database: Database) -> None:
    """After a failover to a server with an earlier clock, such a stream would be silent until the clock catches up."""
    now = rows.database_now(database)
    ahead = str(int((now + timedelta(minutes=1)).timestamp() * 1e6))
    stream = {"Accept": "text/event-stream"}
    for headers, query in (({}, f"?after={ahead}"), (stream, f"?after={ahead}-a-att_1"), (stream, "")):
        sent = headers if query else headers | {"Last-Event-ID": f"{ahead}-a-att_1"}
        refused = problem(api.send("GET", f"/events{query}", headers=sent), 410, "EVENTS_EXPIRED")
        assert "Start again" in refused["message"]
    # A client's clock may be slightly ahead: `since` in the near future returns a position that is not ahead.
    soon = (now + timedelta(seconds=30)).isoformat()
    page = api.get("/events", since=soon).json
    assert api.get("/events", after=page["next"]).status_code == 200


@each_case(
    ("query", "parameter"),
    [
        ("kind=job.", "kind"),
        ("kind=job,x", "kind"),
        ("after=x", "after"),
        ("after=1-z-k", "after"),
        ("since=2100-01-01T00:00:00Z", "since"),
        ("limit=201", "limit"),
        ("labels=team", "labels"),
    ],
)
def test_invalid_query_is_refused(api: Api, query: str, parameter: str) -> None:
    assert pointers(problem(api.send("GET", f"/events?{query}"), 400, "INVALID_REQUEST")) == [parameter]
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "'"}
    assert pointers(problem(api.send("GET", "/events", headers=headers), 400, "INVALID_REQUEST")) == ["Last-Event-ID"]
