"""Schemas of payload specs: invalid schemas are refused, and no schema takes much time to validate."""

from typing import Any

from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import INPUT, created, one_shot, register


@each_case(
    ("schema", "pointer"),
    [
        ("object", "/schema"),
        ([], "/schema"),
        (None, "/schema"),
        ({"type": "banana"}, "/schema/type"),
        ({"properties": {"a/b": {"minimum": "1"}}}, "/schema/properties/a~1b/minimum"),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "/schema/$ref"),
        ({"$ref": "#/nowhere"}, "/schema/$ref"),
        ({"$ref": "#"}, "/schema"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/schema/$schema"),
        ({"properties": {"a": {"pattern": "("}}}, "/schema/properties/a/pattern"),
        ({"properties": {"a": {"pattern": "(?=a)"}}}, "/schema/properties/a/pattern"),
        ({"description": "x" * 140_000}, "/schema"),
    ],
)
def test_invalid_schema_is_refused(shared_api: Api, schema: Any, pointer: str) -> None:
    error = problem(shared_api.post("/payload-specs", {"name": "x", "schema": schema}), 422, "INVALID_SCHEMA")
    assert pointers(error)[0] == pointer


def test_pattern_with_catastrophic_backtracking_is_matched_in_linear_time(api: Api) -> None:
    """Python's `re` would match this input for years."""
    schema = {"properties": {"user_id": {"type": "string", "pattern": "^(a+)+$"}}}
    assert api.post("/payload-specs", {"name": "evil", "schema": schema}).status_code == 201
    register(api, payload_spec="evil")
    problem(api.post("/jobs", one_shot("k", input={"user_id": "a" * 10_000 + "!"})), 422, "INPUT_VALIDATION_FAILED")
    created(api, one_shot("k", input={"user_id": "a" * 10_000}))


def test_validation_over_its_budget_is_refused(api: Api) -> None:
    """Thirty references each double the work: validation stops at its budget, and the client gets a 422."""
    parts: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 31):
        parts[f"d{number}"] = {"allOf": [{"$ref": f"#/$defs/d{number - 1}"}] * 2}
    schema = {"$defs": parts, "properties": {"user_id": {"$ref": "#/$defs/d30"}}}
    assert api.post("/payload-specs", {"name": "evil", "schema": schema}).status_code == 201
    register(api, payload_spec="evil")
    error = problem(api.post("/jobs", one_shot("k", input=INPUT)), 422, "INPUT_VALIDATION_FAILED")
    assert "too long" in error["message"]
