"""The OpenAPI document keeps the promises of the last release (docs/reference/compatibility.md)."""

import copy
from typing import Any

from tests.api_promises import breaches, promises, released
from tests.cases import each_case
from tests.integration.http.document import document


def test_api_keeps_the_promises_of_the_last_release() -> None:
    """For a release: `python -m tests.api_promises`. A feature takes its promises with it."""
    assert len(released()) > 1000
    assert breaches(released(), promises(document())) == []


@each_case(
    ("schema", "change", "found"),
    [
        ("NewJob", lambda each: each["properties"].pop("input"), "lost: field NewJob .input"),
        ("NewJob", lambda each: each["properties"]["name"].update(type="integer"), "lost: field NewJob .name "),
        ("NewJob", lambda each: each.setdefault("required", []).append("name"), "new: requires NewJob .name"),
        ("Worker", lambda each: each["properties"]["state"]["enum"].remove("LOST"), "lost: value Worker .state LOST"),
        ("Worker", lambda each: each["required"].append("region"), None),
        ("Worker", lambda each: each["properties"].update(region={"type": "string"}), None),
    ],
)
def test_change_of_a_field_is_found_unless_clients_accept_it(schema: str, change: Any, found: str | None) -> None:
    changed = copy.deepcopy(document())
    change(changed["components"]["schemas"][schema])
    lost = breaches(promises(document()), promises(changed))
    assert [line for line in lost if not line.startswith(found or "none")] == []
    assert bool(lost) is (found is not None)


def test_lost_operation_parameter_and_error_are_found() -> None:
    changed = copy.deepcopy(document())
    del changed["paths"]["/processes"]["get"]
    jobs = changed["paths"]["/jobs"]["get"]
    jobs["parameters"] = [each for each in jobs["parameters"] if each["name"] != "endpoint"]
    del changed["paths"]["/jobs/{job_id}"]["get"]["responses"]["404"]
    lost = breaches(promises(document()), promises(changed))
    assert {"lost: operation GET:/processes", "lost: answer GET:/jobs/{job_id} 404-JOB_NOT_FOUND"} <= set(lost)
    assert any(line.startswith("lost: field GET:/jobs query.endpoint") for line in lost)
