"""Lists of jobs with large or unreadable inputs: a page is bounded by bytes too, and every job is listed."""

import json
from typing import NoReturn

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs import job_queries
from tests import rows
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.registered import created, interval, one_shot, register


def enlarge(database: Database, share: float) -> None:
    """Give each job an input of `share` times the bytes of a page."""
    change = text("UPDATE jobs SET input = CAST(:input AS JSONB)")
    database.fetch(change, {"input": json.dumps({"text": "x" * int(job_queries.PAGE_BYTES * share)})})


def test_page_has_fewer_jobs_if_inputs_are_large(api: Api, database: Database) -> None:
    register(api)
    jobs = [created(api, one_shot(f"k{n}"))["job_id"] for n in range(5)]
    enlarge(database, 0.4)
    page = api.get("/jobs", limit=10).json
    assert [len(page["items"]), page["cursor"] is not None] == [2, True]
    assert read_all_pages(api, "/jobs", "job_id", limit=10) == jobs[::-1]


def test_page_has_one_job_even_if_its_input_exceeds_the_page(api: Api, database: Database) -> None:
    register(api)
    jobs = [created(api, one_shot(f"k{n}"))["job_id"] for n in range(3)]
    enlarge(database, 1.1)
    assert len(api.get("/jobs", limit=2).json["items"]) == 1
    assert read_all_pages(api, "/jobs", "job_id") == jobs[::-1]


def test_page_of_versions_is_bounded_by_bytes_too(api: Api, database: Database) -> None:
    register(api)
    job_ids = [created(api, interval())["job_id"]]
    for _ in range(3):
        job_ids.append(api.put(f"/jobs/{job_ids[-1]}", {"every": "10s"}).json["job_id"])
    enlarge(database, 0.4)
    assert read_all_pages(api, f"/jobs/{job_ids[-1]}/versions", "job_id", limit=10) == job_ids[::-1]
    assert len(api.get(f"/jobs/{job_ids[-1]}/versions", limit=10).json["items"]) == 2


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param(nested(3000), "deeper", id="too deep for any parser"),
        pytest.param(nested(501), "deeper", id="too deep for the service"),
        pytest.param(f'{{"a": {10**400}}}', "number", id="beyond a double"),
        pytest.param(f'{{"a": {10**400}.5}}', "number", id="beyond a double with a fraction"),
    ],
)
def test_unreadable_input_is_reported_and_does_not_break_lists(
    api: Api, database: Database, stored: str, message: str
) -> None:
    """Such rows were written by an SQL function before it checked inputs, or by manual edits."""
    register(api)
    register(api, "other")
    jobs = [
        created(api, interval())["job_id"],
        created(api, one_shot("k"))["job_id"],
        created(api, one_shot("l"))["job_id"],
    ]
    repeating, single = jobs[:2]
    change = "UPDATE jobs SET input = CAST(:input AS JSONB) WHERE job_id IN (:repeating, :single)"
    database.fetch(text(change), {"input": stored, "repeating": repeating, "single": single})
    listed = json.loads(api.get("/jobs").get_data(), parse_constant=refuse)["items"]
    assert [each["job_id"] for each in listed] == jobs[::-1]
    assert message in listed[2]["input"]["unreadable"]
    assert listed[0]["input"] == one_shot("l")["input"]
    (run,) = api.get(f"/jobs/{single}/executions").json["items"]
    assert api.get(f"/executions/{run['execution_id']}").json["input"] == api.get(f"/jobs/{repeating}").json["input"]
    # An update or a redrive with the unreadable input is refused.
    assert pointers(problem(api.put(f"/jobs/{repeating}", {"every": "10s"}), 422, "INPUT_VALIDATION_FAILED")) == [
        "/input"
    ]
    letter = f"/dead-letters/{rows.add_letter(database, run['execution_id'])}"
    refused = problem(api.post(f"{letter}/redrive", {"endpoint": "other"}), 422, "INPUT_VALIDATION_FAILED")
    assert "give another input" in refused["message"]
    assert api.get(letter).json["execution"]["input"] == listed[1]["input"]
    assert api.put(f"/jobs/{repeating}", {"every": "10s", "input": {"user_id": "u"}}).json["input"] == {"user_id": "u"}


def test_unusual_readable_input_is_returned_unchanged(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, one_shot("k"))["job_id"]
    for stored in (nested(500), '{"a": 1e300, "b": [' + "{}," * 600 + "[]]}"):
        database.fetch(text("UPDATE jobs SET input = CAST(:input AS JSONB)"), {"input": stored})
        assert api.get(f"/jobs/{job_id}").json["input"] == json.loads(stored)
