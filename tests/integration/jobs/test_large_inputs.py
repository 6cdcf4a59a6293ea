"""Lists of jobs with large inputs: a page is bounded by bytes too, and no job is missed."""

import pytest

from app.jobs import queries
from tests.integration.client import Api, walk
from tests.integration.registered import created, interval, one_shot, register


def test_a_page_has_fewer_jobs_where_their_inputs_are_large(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES", 2500)
    register(api)
    jobs = [created(api, one_shot(f"k{n}", input={"text": "x" * 1000}))["job_id"] for n in range(5)]
    page = api.get("/jobs", limit=10).json
    assert [len(page["items"]), page["cursor"] is not None] == [2, True]
    assert walk(api, "/jobs", "job_id", limit=10) == jobs[::-1]


def test_a_page_has_a_job_however_large_its_input(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES", 10)
    register(api)
    jobs = [created(api, one_shot(f"k{n}"))["job_id"] for n in range(3)]
    assert len(api.get("/jobs", limit=2).json["items"]) == 1
    assert walk(api, "/jobs", "job_id") == jobs[::-1]


def test_the_versions_of_a_job_are_bounded_alike(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES", 2500)
    register(api)
    job_ids = [created(api, interval(input={"text": "x" * 1000}))["job_id"]]
    for _ in range(3):
        job_ids.append(api.put(f"/jobs/{job_ids[-1]}", {"every": "10s"}).json["job_id"])
    assert walk(api, f"/jobs/{job_ids[-1]}/versions", "job_id", limit=10) == job_ids[::-1]
    assert len(api.get(f"/jobs/{job_ids[-1]}/versions", limit=10).json["items"]) == 2
