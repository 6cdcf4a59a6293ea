"""Callbacks in requests: of an endpoint or a job, which endpoints they may name, and which schemas fit outcomes."""

from functools import partial

import pytest

from tests.integration.client import Api, another_process, pointers, problem
from tests.integration.registered import created, cron, http_endpoint, one_shot, register, register_all
from tests.racing import at_once


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"on_success": "nope"}, "There is no endpoint named 'nope'."),
        ({"on_success": "target"}, "target -> target"),
        ({"on_success": "second"}, "target -> second -> third -> target"),
        ({"on_success": "needs-order"}, "GET /callbacks/schema"),
        ({"on_failure": "attempted"}, "without an attempt: /error"),
        ({"on_failure": "message"}, "{{input.title}} at /spec/title, which no outcome has"),
    ],
)
def test_invalid_callback_is_refused(api: Api, named: dict[str, str], words: str) -> None:
    register(api)
    register(api, "third", callbacks={"on_failure": "target"})
    register(api, "second", callbacks={"on_attempt_failed": "third"})
    api.post("/payload-specs", {"name": "needs-order", "schema": {"type": "object", "required": ["order"]}})
    register(api, "needs-order", payload_spec="needs-order")
    api.post("/payload-specs", {"name": "attempted", "schema": {"properties": {"error": {"type": "object"}}}})
    register(api, "attempted", payload_spec="attempted")
    assert api.post("/secrets", {"name": "hook", "value": "json://127.0.0.1:9/"}).status_code == 201
    register(api, "message", type="NOTIFICATION", spec={"url": "{{secret.hook}}"})
    for response in (
        api.put("/endpoints/target", http_endpoint(callbacks=named)),
        api.post("/jobs", one_shot("first", callbacks=named)),
        api.put(f"/jobs/{created(api, cron())['job_id']}", {"callbacks": named}),
    ):
        error = problem(response, 422, "INVALID_CALLBACK")
        assert pointers(error) == [f"/callbacks/{next(iter(named))}"]
        assert words in error["message"]
    (item,) = api.post("/jobs/batch", {"jobs": [one_shot("first", callbacks=named)]}).json["items"]
    assert item["error"]["code"] == "INVALID_CALLBACK"


def test_endpoint_whose_templates_fit_outcomes_is_a_valid_callback(api: Api) -> None:
    register_all(api)
    template = {"id": "{{input.execution_id}}", "to": "{{config.base}}"}
    spec = {"url": "http://127.0.0.1:9/", "method": "POST", "headers": {"A": "{{secret.token}}"}}
    register(api, "hook", config="config", spec=spec | {"body_template": template})
    assert created(api, one_shot("k", callbacks={"on_failure": "hook"}))["callbacks"] == {"on_failure": "hook"}


def test_endpoint_used_as_a_callback_is_not_deleted(api: Api) -> None:
    register(api, "hook")
    register(api, callbacks={"on_success": "hook"})
    refused = api.delete("/endpoints/hook")
    assert "endpoint target" in problem(refused, 409, "CONFLICT")["message"]
    assert api.get("/endpoints/target").json["callbacks"] == {"on_success": "hook"}
    assert api.put("/endpoints/target", http_endpoint(callbacks={"on_success": None})).json["callbacks"] is None
    assert api.delete("/endpoints/hook").status_code == 204


def test_two_concurrent_changes_cannot_create_a_callback_loop(api: Api) -> None:
    register(api, "one")
    register(api, "two")
    with another_process(api) as other:
        for _ in range(5):
            answers = at_once(
                partial(api.put, "/endpoints/one", http_endpoint("one", callbacks={"on_success": "two"})),
                partial(other.put, "/endpoints/two", http_endpoint("two", callbacks={"on_success": "one"})),
            )
            assert sorted(answer.status_code for answer in answers) == [200, 422]
            for name in ("one", "two"):
                assert api.put(f"/endpoints/{name}", http_endpoint(name)).status_code == 200
