"""Dead letters: filtered by endpoint, error, labels and time; redriven once, or archived with a note."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.feature import completion_handlers
from app.features import FEATURES
from app.features.dead_letters.api import MAX_ATTEMPTS
from app.features.dead_letters.letter_list import LetterFilter, page_of_letters
from app.kernel.db import Database
from app.kernel.db.chunked_scan import ChunkedRead
from app.kernel.db.paging import PageRequest
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions.verdict import Verdict
from schema.states import Followed
from tests import rows
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.executions.worker import ERROR, claim, end
from tests.integration.registered import INPUT, created, cron, one_shot, register
from tests.racing import at_once

HANDLERS = completion_handlers(FEATURES)


@pytest.fixture
def letter_id(api: Api, database: Database, execution_id: str) -> str:
    """Return the dead letter of an execution that failed at its second attempt."""
    end(database, claim(database), Verdict.retry(ERROR, 0))
    end(database, claim(database), Verdict.fail(ERROR))
    OutboxProcessor(database, handlers=HANDLERS).handle(
        [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    )
    (found,) = api.get("/dead-letters").json["items"]
    return str(found["letter_id"])


def listed_ids(api: Api, **query: Any) -> list[str]:
    response = api.get("/dead-letters", **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    return [item["letter_id"] for item in response.json["items"]]


def test_dead_letter_shows_its_error_execution_and_attempts(
    api: Api, database: Database, letter_id: str, execution_id: str
) -> None:
    shown = api.get(f"/dead-letters/{letter_id}").json
    assert (shown["error_type"], shown["message"], shown["attempt_count"]) == ("HTTP_ERROR", "answered 503", 2)
    assert (shown["endpoint"], shown["resolution"]) == ("target", None)
    assert shown["execution"] == api.get(f"/executions/{execution_id}").json
    assert shown["execution"]["input"] == INPUT
    assert shown["attempts"] == api.get(f"/executions/{execution_id}/attempts").json["items"]
    (listed,) = api.get("/dead-letters").json["items"]
    only_in_details = {"execution", "attempts", "more_attempts"}
    assert listed == {name: value for name, value in shown.items() if name not in only_in_details}


def test_dead_letter_with_many_attempts_links_the_full_list(
    api: Api, database: Database, letter_id: str, execution_id: str
) -> None:
    for number in range(3 - MAX_ATTEMPTS, 1):
        rows.add_attempt(database, execution_id, number, "FAILED")
    assert api.get(f"/dead-letters/{letter_id}").json["more_attempts"] is None
    rows.add_attempt(database, execution_id, 2 - MAX_ATTEMPTS, "FAILED")
    shown = api.get(f"/dead-letters/{letter_id}").json
    numbers = [*range(2, 1 - MAX_ATTEMPTS, -1)]
    assert [each["attempt_number"] for each in shown["attempts"]] == numbers[:MAX_ATTEMPTS]
    assert read_all_pages(api, shown["more_attempts"], "attempt_number", limit=200) == numbers


def test_dead_letters_are_filtered_by_state_endpoint_error_labels_and_time(api: Api, database: Database) -> None:
    register(api)
    register(api, "other")
    now = rows.database_now(database)
    matching = rows.add_letter(database, error_type="TIMEOUT", labels={"team": "a", "env": "x"}, failed_at=now)
    other = rows.add_letter(database, endpoint="other", failed_at=now - timedelta(hours=1))
    old = rows.add_letter(database, labels={"team": "b"}, failed_at=now - timedelta(days=2))
    resolved = rows.add_letter(database, resolution="ARCHIVED", resolved_at=now, failed_at=now)
    assert listed_ids(api) == [matching, other, old]
    assert listed_ids(api, state="resolved") == [resolved]
    assert listed_ids(api, endpoint="other") == [other]
    assert listed_ids(api, error_type="HTTP_ERROR") == [other, old]
    assert listed_ids(api, endpoint="target", error_type="HTTP_ERROR") == [old]
    assert listed_ids(api, labels="team=a,env=x") == [matching]
    assert listed_ids(api, failed_after=(now - timedelta(hours=2)).isoformat()) == [matching, other]
    assert listed_ids(api, failed_before=(now - timedelta(hours=2)).isoformat(), endpoint="target") == [old]
    assert pointers(problem(api.get("/dead-letters", state="lost"), 400, "INVALID_REQUEST")) == ["state"]


def test_pages_of_rare_dead_letters_are_bounded_in_time_and_complete(api: Api, database: Database) -> None:
    register(api)
    rare = [rows.add_letter(database, labels={"team": "a"}) for _ in range(2)]
    for _ in range(25):
        rows.add_letter(database)
    wanted, after = LetterFilter(labels={"team": "a"}), None
    found, pages = list[str](), 0
    while pages == 0 or after is not None:
        page = page_of_letters(database, wanted, PageRequest(after=after), ChunkedRead(0.0, 10))
        found += [letter.letter_id for letter in page.items]
        after, pages = page.next, pages + 1
    assert found == rare[::-1]
    assert pages > 2


def test_concurrent_redrives_queue_the_execution_and_resolve_the_letter_once(
    api: Api, database: Database, letter_id: str, execution_id: str
) -> None:
    answers = at_once(*[lambda: api.post(f"/dead-letters/{letter_id}/redrive", {})] * 3)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.get_data() for answer in answers}) == 1
    shown = answers[0].json
    assert (shown["resolution"], shown["resolved_by"], shown["redriven_as"]) == ("REDRIVEN", "test", execution_id)
    execution = api.get(f"/executions/{execution_id}").json
    assert (execution["status"], execution["attempt_count"], execution["max_attempts"]) == ("QUEUED", 2, 5)
    assert listed_ids(api) == []
    problem(api.post(f"/dead-letters/{letter_id}/archive", {"note": "no"}), 409, "CONFLICT")
    problem(api.post(f"/dead-letters/{letter_id}/redrive", {"endpoint": "target"}), 409, "CONFLICT")


def test_redrive_to_another_endpoint_creates_one_job(
    api: Api, database: Database, letter_id: str, execution_id: str
) -> None:
    database.fetch(text('UPDATE dead_letters SET labels = \'{"team": "a"}\''))
    register(api, "other")
    answers = at_once(*[lambda: api.post(f"/dead-letters/{letter_id}/redrive", {"endpoint": "other"})] * 3)
    assert {answer.status_code for answer in answers} == {200}
    (new,) = api.get("/jobs", endpoint="other").json["items"]
    assert (new["input"], new["labels"], new["trigger"]) == (INPUT, {"team": "a"}, "IMMEDIATE")
    assert answers[0].json["redriven_as"] == new["execution"]["execution_id"]
    assert api.get(f"/executions/{execution_id}").json["status"] == "FAILED"
    problem(api.post(f"/dead-letters/{letter_id}/redrive", {}), 409, "CONFLICT")


def test_redrive_whose_key_is_taken_is_refused_and_leaves_the_letter_open(
    api: Api, database: Database, letter_id: str
) -> None:
    register(api, "other")
    taken = created(api, one_shot("mine", endpoint="other"))
    params = {"key": f"te:redrive:{letter_id}", "job_id": taken["job_id"]}
    database.fetch(text("UPDATE jobs SET idempotency_key = :key WHERE job_id = :job_id"), params)
    database.fetch(text("UPDATE executions SET idempotency_key = :key WHERE job_id = :job_id"), params)
    path = f"/dead-letters/{letter_id}/redrive"
    error = problem(api.post(path, {"endpoint": "other"}), 409, "CONFLICT")
    assert taken["job_id"] in error["message"]
    assert listed_ids(api) == [letter_id]
    assert api.post(path, {}).status_code == 200
    problem(api.post(path, {"endpoint": "other"}), 409, "CONFLICT")


def test_redrive_creates_a_job_although_a_client_uses_the_id_of_the_letter(
    api: Api, database: Database, letter_id: str
) -> None:
    register(api, "other")
    created(api, one_shot(f"redrive_{letter_id}", endpoint="other"))
    answer = api.post(f"/dead-letters/{letter_id}/redrive", {"endpoint": "other"})
    assert (answer.status_code, answer.json["resolution"]) == (200, "REDRIVEN")


def test_redrive_with_another_input_uses_the_newest_version_of_the_endpoint(
    api: Api, database: Database, letter_id: str, execution_id: str
) -> None:
    endpoint = api.get("/endpoints/target").json
    spec = endpoint["spec"] | {"timeout_ms": 1000}
    assert api.put("/endpoints/target", {"name": "target", "type": "HTTP", "spec": spec}).status_code == 200
    register(api, "alarm")
    job_fields = "callbacks = '{\"on_failure\": \"alarm\"}', queue = 'slow', priority = 7, name = 'Welcome'"
    database.fetch(text(f"UPDATE jobs SET {job_fields}"))
    given = {"user_id": "u_2"}
    shown = api.post(f"/dead-letters/{letter_id}/redrive", {"input": given}).json
    new = api.get(f"/executions/{shown['redriven_as']}").json
    assert (new["input"], new["endpoint"], new["endpoint_version"]) == (given, "target", 2)
    job = api.get(f"/jobs/{new['job_id']}").json
    assert (job["callbacks"], job["queue"], job["priority"]) == ({"on_failure": "alarm"}, "slow", 7)
    followed = rows.execution(database, new["execution_id"]).followed
    assert (job["name"], followed) == ("Welcome", Followed.FAILURE)


def test_refused_redrive_leaves_the_letter_open(api: Api, database: Database, letter_id: str) -> None:
    path = f"/dead-letters/{letter_id}/redrive"
    problem(api.post(path, {"endpoint": "nope"}), 404, "ENDPOINT_NOT_FOUND")
    api.post("/payload-specs", {"name": "strict", "schema": {"required": ["order"]}})
    register(api, "strict", payload_spec="strict")
    assert pointers(problem(api.post(path, {"endpoint": "strict"}), 422, "INPUT_VALIDATION_FAILED")) == ["/input/order"]
    problem(api.post(path, {"when": "now"}), 400, "INVALID_REQUEST")
    database.fetch(text("UPDATE endpoints SET deleted_at = now() WHERE name = 'target'"))
    assert "target" in problem(api.post(path, {}), 409, "CONFLICT")["message"]
    assert listed_ids(api) == [letter_id], "a letter of a deleted endpoint is still listed"
    assert api.get(f"/dead-letters/{letter_id}").json["execution"]["status"] == "FAILED"


def test_archived_letter_has_its_note_and_actor(api: Api, letter_id: str) -> None:
    path = f"/dead-letters/{letter_id}/archive"
    for body, pointer in (({}, "/note"), ({"note": ""}, "/note"), ({"note": "x" * 1001}, "/note")):
        assert pointers(problem(api.post(path, body), 400, "INVALID_REQUEST")) == [pointer]
    for _ in range(2):
        shown = api.post(path, {"note": "the customer is gone"}).json
        assert (shown["resolution"], shown["note"], shown["resolved_by"]) == (
            "ARCHIVED",
            "the customer is gone",
            "test",
        )
    problem(api.post(path, {"note": "another one"}), 409, "CONFLICT")
    problem(api.post(f"/dead-letters/{letter_id}/redrive", {}), 409, "CONFLICT")
    problem(api.post("/dead-letters/att_nope/archive", {"note": "n"}), 404, "DEAD_LETTER_NOT_FOUND")


def test_manual_retry_resolves_the_letter(api: Api, letter_id: str, execution_id: str) -> None:
    assert api.post(f"/executions/{execution_id}/retry").status_code == 200
    shown = api.get(f"/dead-letters/{letter_id}").json
    assert (shown["resolution"], shown["resolved_by"], shown["redriven_as"]) == ("RETRIED", "test", execution_id)


@pytest.mark.parametrize(("verb", "body"), [("archive", {"note": "gone"}), ("redrive", {"endpoint": "target"})])
def test_execution_with_a_resolved_letter_is_not_retried(
    api: Api, letter_id: str, execution_id: str, verb: str, body: dict[str, Any]
) -> None:
    shown = api.post(f"/dead-letters/{letter_id}/{verb}", body).json
    message = problem(api.post(f"/executions/{execution_id}/retry"), 409, "CONFLICT")["message"]
    assert letter_id in message
    assert (shown["redriven_as"] or "create a new job") in message
    assert api.get(f"/executions/{execution_id}").json["status"] == "FAILED"
    assert api.get(f"/dead-letters/{letter_id}").json["resolution"] == shown["resolution"]


def test_letter_of_a_tick_is_redriven_unless_its_job_is_paused(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    letter_id = rows.add_letter(database, rows.add_tick(database, job_id))
    assert api.post(f"/dead-letters/{letter_id}/redrive", {}).json["resolution"] == "REDRIVEN"
    letter_id = rows.add_letter(database, rows.add_tick(database, job_id))
    assert api.post(f"/jobs/{job_id}/pause").status_code == 200
    problem(api.post(f"/dead-letters/{letter_id}/redrive", {}), 409, "CONFLICT")
    assert api.post(f"/dead-letters/{letter_id}/redrive", {"endpoint": "target"}).status_code == 200
    assert created(api, one_shot("more"))["trigger"] == "IMMEDIATE"


def test_bulk_redrive_is_previewed_started_and_controlled(api: Api, database: Database) -> None:
    register(api)
    matching = rows.add_letter(database, labels={"team": "a"})
    rows.add_letter(database)
    wanted = {"labels": {"team": "a"}, "failed_after": "2020-01-01T00:00:00Z"}
    preview = api.post("/redrives/preview", {"wanted": wanted}).json
    assert (preview["count"], preview["is_complete"], [each["letter_id"] for each in preview["sample"]]) == (
        1,
        True,
        [matching],
    )
    started = api.post("/redrives", {"wanted": wanted, "rate": 5})
    assert started.status_code == 202
    path = f"/redrives/{started.json['redrive_id']}"
    assert (started.json["status"], started.json["rate"], started.json["actor"]) == ("RUNNING", 5, "test")
    assert started.json["wanted"] == {"labels": {"team": "a"}, "failed_after": "2020-01-01T00:00:00Z"}
    assert [api.post(f"{path}/{verb}").json["status"] for verb in ("pause", "resume", "stop")] == [
        *("PAUSED", "RUNNING", "STOPPED"),
    ]
    assert api.get(path).json["ended_at"] is not None
    problem(api.post(f"{path}/resume"), 409, "CONFLICT")


@pytest.mark.parametrize("path", ["/redrives", "/redrives/preview"])
def test_bulk_redrive_without_a_filter_needs_all_and_invalid_fields_are_named(
    api: Api, database: Database, path: str
) -> None:
    register(api)
    rows.add_letter(database)
    for body, pointer in (
        ({}, "/wanted"),
        ({"endpoint": "target"}, "/wanted"),
        ({"wanted": {"state": "open"}}, "/wanted/state"),
        ({"wanted": {}, "rate": 10_001}, "/rate"),
        ({"wanted": {}}, "/all"),
        ({"wanted": {"labels": {}}, "all": False}, "/all"),
        ({"wanted": {"endpoint": "target"}, "all": True}, "/all"),
    ):
        assert pointers(problem(api.post(path, body), 400, "INVALID_REQUEST"))[:1] == [pointer]
    problem(api.post(path, {"wanted": {}, "all": True, "to_endpoint": "nope"}), 404, "ENDPOINT_NOT_FOUND")
    assert api.get("/redrives").json["items"] == []
    everything = api.post(path, {"wanted": {}, "all": True}).json
    assert everything.get("count", 1) == 1
