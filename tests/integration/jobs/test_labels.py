"""Names and labels of jobs: stored, shown, used as filters, copied to the next version."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.registered import created, cron, interval, one_shot, register

LABELS = {"team": "billing", "example.com/tier": "1", "empty": ""}


def test_job_without_name_and_labels_shows_null_and_an_empty_object(api: Api) -> None:
    register(api)
    job = created(api, one_shot("k", name=None, labels=None))
    assert (job["name"], job["labels"]) == (None, {})
    assert api.get(f"/jobs/{job['job_id']}").json == job


@pytest.mark.parametrize("body", [one_shot("k"), cron(), interval()], ids=["one-shot", "cron", "interval"])
def test_name_and_labels_are_stored_and_shown(api: Api, body: dict[str, Any]) -> None:
    register(api)
    job = created(api, body | {"name": "Daily report", "labels": LABELS})
    assert (job["name"], job["labels"]) == ("Daily report", LABELS)
    assert api.get(f"/jobs/{job['job_id']}").json == job


def test_batch_stores_names_and_labels(api: Api) -> None:
    register(api)
    wanted = [one_shot("a", name="A", labels={"n": "1"}), cron(name="B", labels={"n": "2"}), one_shot("c")]
    items = api.post("/jobs/batch", {"jobs": wanted}).json["items"]
    assert [(item["job"]["name"], item["job"]["labels"]) for item in items] == [
        ("A", {"n": "1"}),
        ("B", {"n": "2"}),
        (None, {}),
    ]
    for item in items:
        assert api.get(f"/jobs/{item['job']['job_id']}").json == item["job"]


@pytest.mark.parametrize(
    ("change", "name", "labels"),
    [
        ({"every": "20s"}, "first", {"team": "billing"}),
        ({"name": "second"}, "second", {"team": "billing"}),
        ({"labels": {"env": "prod"}}, "first", {"env": "prod"}),
        ({"name": None, "labels": None}, None, {}),
    ],
    ids=["neither", "name", "labels", "null"],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_next_version_keeps_or_changes_name_and_labels(
    api: Api, method: str, change: dict[str, Any], name: str | None, labels: dict[str, str]
) -> None:
    register(api)
    old = created(api, interval(name="first", labels={"team": "billing"}))
    new = api.send(method, f"/jobs/{old['job_id']}", json=change).json
    assert (new["version"], new["name"], new["labels"]) == (2, name, labels)
    assert api.get(f"/jobs/{new['job_id']}").json == new
    before = api.get(f"/jobs/{old['job_id']}").json
    assert (before["name"], before["labels"]) == ("first", {"team": "billing"})


def test_jobs_are_filtered_by_name_and_labels(api: Api) -> None:
    register(api)
    labels = [{"team": "billing", "env": "prod"}, {"team": "billing"}, {"team": "shop", "env": "prod"}, {}]
    found = [created(api, one_shot(f"k{n}", name=f"n{n % 2}", labels=each))["job_id"] for n, each in enumerate(labels)]

    def listed(**filters: str) -> list[int]:
        return [found.index(job_id) for job_id in read_all_pages(api, "/jobs", "job_id", limit=1, **filters)]

    assert listed(name="n0") == [2, 0]
    assert listed(name="n") == []
    assert listed(labels="team=billing") == [1, 0]
    assert listed(labels="team=billing,env=prod") == [0]
    assert listed(labels="team=billing", name="n1") == [1]
    assert listed(labels="env=prod", trigger="CRON") == []
    assert listed(labels="team=") == []
    assert listed(labels="Team=billing") == []


@each_case(
    ("fields", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": 7}, "/name"),
        ({"labels": []}, "/labels"),
        ({"labels": {f"k{n}": "v" for n in range(33)}}, "/labels"),
        ({"labels": {"k": 1}}, "/labels/k"),
        ({"labels": {"k": None}}, "/labels/k"),
        ({"labels": {"k": "a,b"}}, "/labels/k"),
        ({"labels": {"k": "x" * 64}}, "/labels/k"),
        ({"labels": {"": "v"}}, "/labels/"),
        ({"labels": {"-k": "v"}}, "/labels/-k"),
        ({"labels": {"x" * 64: "v"}}, f"/labels/{'x' * 64}"),
        ({"labels": {"a/b/c": "v"}}, "/labels/a~1b~1c"),
        ({"labels": {"UPPER.com/k": "v"}}, "/labels/UPPER.com~1k"),
        ({"labels": {".".join(["x" * 60] * 5) + "/k": "v"}}, None),
    ],
)
def test_invalid_name_or_label_is_400(registered: Api, fields: dict[str, Any], pointer: str | None) -> None:
    job = created(registered, interval())
    for response in (
        registered.post("/jobs", one_shot("k", **fields)),
        registered.put(f"/jobs/{job['job_id']}", fields),
    ):
        found = pointers(problem(response, 400, "INVALID_REQUEST"))
        assert len(found) == 1
        assert pointer in {None, found[0]}


def test_longest_name_and_labels_are_stored(api: Api) -> None:
    register(api)
    longest = "x" * 63
    labels = {f"{'.'.join([longest] * 3)}/{longest[2:]}{n}": longest for n in range(10, 42)}
    job = created(api, one_shot("k", name="ü" * 200, labels=labels))
    assert job["labels"] == labels
    assert read_all_pages(
        api, "/jobs", "job_id", labels=",".join(f"{key}={value}" for key, value in labels.items())
    ) == [job["job_id"]]


@each_case("selector", ["", "team", "team=a,", "team=a,team=b", "team=a=b", "t eam=a", "=a"])
def test_invalid_label_selector_is_400(api: Api, selector: str) -> None:
    assert pointers(problem(api.get("/jobs", labels=selector), 400, "INVALID_REQUEST")) == ["labels"]
