"""POST /payload-specs/{name}/check."""

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs import payload_spec_check
from app.queue.jobs.payload_spec_check import check_inputs
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import SCHEMA, created, cron, one_shot, register

STRICT = SCHEMA | {"properties": {"user_id": {"type": "string", "pattern": "^u_"}}}


def prepared(api: Api) -> None:
    assert api.post("/payload-specs", {"name": "spec", "schema": SCHEMA}).status_code == 201
    for name in ("target", "second"):
        register(api, name, payload_spec="spec")
    register(api, "unrelated")


def test_new_schema_is_checked_against_the_newest_inputs_of_its_endpoints(api: Api) -> None:
    prepared(api)
    created(api, one_shot("a"))
    created(api, cron(endpoint="second"))
    bad = created(api, one_shot("b", input={"user_id": "x"}, endpoint="second"))
    created(api, one_shot("c", input={"user_id": "x"}, endpoint="unrelated"))
    found = api.post("/payload-specs/spec/check", {"schema": STRICT}).json
    (failure,) = found.pop("failures")
    assert found == {"endpoints": 2, "checked": 3, "passed": 2, "failed": 1, "is_complete": True}
    assert (failure["job_id"], failure["endpoint"]) == (bad["job_id"], "second")
    assert [fault["pointer"] for fault in failure["faults"]] == ["/user_id"]
    assert api.get("/payload-specs/spec").json["schema"] == SCHEMA, "nothing is stored"


def test_spec_without_uses_passes(api: Api) -> None:
    assert api.post("/payload-specs", {"name": "spec", "schema": SCHEMA}).status_code == 201
    assert api.post("/payload-specs/spec/check", {"schema": STRICT}).json == {
        "endpoints": 0, "checked": 0, "passed": 0, "failed": 0, "failures": [], "is_complete": True,
    }  # fmt: skip


def test_invalid_schemas_and_unknown_specs_are_refused(api: Api) -> None:
    prepared(api)
    error = problem(api.post("/payload-specs/spec/check", {"schema": {"type": "strin"}}), 422, "INVALID_SCHEMA")
    assert pointers(error) == ["/schema/type"]
    problem(api.post("/payload-specs/spec/check", {"schema": None}), 422, "INVALID_SCHEMA")
    problem(api.post("/payload-specs/other/check", {"schema": SCHEMA}), 404, "PAYLOAD_SPEC_NOT_FOUND")


def test_newest_inputs_count_and_the_result_says_what_is_left_out(api: Api, database: Database) -> None:
    prepared(api)
    for number in range(3):
        created(api, one_shot(f"old-{number}", input={"user_id": "x"}))
    database.fetch(text("UPDATE jobs SET created_at = created_at - INTERVAL '1 day'"))
    for number in range(payload_spec_check.MAX_INPUTS - 1):
        created(api, one_shot(f"new-{number}", endpoint=("target", "second")[number % 2]))
    found = check_inputs(database, "spec", STRICT)
    assert (found.passed, found.failed, found.is_complete) == (payload_spec_check.MAX_INPUTS - 1, 1, True)
    late = check_inputs(database, "spec", STRICT, seconds=0)
    assert (late.checked, late.is_complete) == (0, False)


def test_input_that_cannot_be_read_fails(api: Api, database: Database) -> None:
    prepared(api)
    job_id = created(api, one_shot("a"))["job_id"]
    deep = "[" * 600 + "]" * 600
    database.fetch(
        text("UPDATE jobs SET input = CAST(:input AS JSONB) WHERE job_id = :id"), {"input": deep, "id": job_id}
    )
    found = check_inputs(database, "spec", {})
    assert found.failed == 1
    assert "cannot be read" in found.failures[0].faults[0]["message"]
