"""OpenAPI document: complete and consistent. All other tests check that answers match it."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from flask import Flask
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.catalog.specs import TRANSPORTS
from app.kernel.config import Settings
from app.queue.jobs.job_status import LATEST, NEWEST, OPEN
from app.web.application import create_app
from tests.integration.client import Api
from tests.integration.http.document import document, is_operation

METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document()["paths"].items():
        for method in METHODS:
            if method in operations:
                yield f"{method.upper()} {path}", operations[method]


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the description of every request and answer with a body."""
    for name, operation in operations():
        if "requestBody" in operation:
            yield f"{name} request", operation["requestBody"]["content"]["application/json"]
        for status, response in operation["responses"].items():
            for media in resolved(response).get("content", {}).values():
                yield f"{name} {status}", media


def resolved(response: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref":
                yield child
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def test_document_contains_every_route(app: Flask) -> None:
    for rule in app.url_map.iter_rules():
        if is_operation(rule):
            path = rule.rule.replace("<", "{").replace(">", "}")
            assert {method.lower() for method in rule.methods - {"HEAD", "OPTIONS"}} <= set(document()["paths"][path])


def test_concurrent_first_readers_get_the_same_complete_document() -> None:
    app = create_app(Settings(database_url="postgresql://nobody@127.0.0.1:1/none"))
    together = Barrier(4)

    def read(_reader: int) -> object:
        together.wait(60)
        return app.test_client().get("/openapi.json").json

    with ThreadPoolExecutor(4) as readers:
        assert list(readers.map(read, range(4))) == [document()] * 4


def test_statistics_of_a_job_describe_their_bounds() -> None:
    schemas = document()["components"]["schemas"]
    assert f"newest {NEWEST:,}" in schemas["Stats"]["properties"]["last_24h"]["description"]
    shown = schemas["Status"]["properties"]
    assert f"newest {LATEST:,}" in shown["last_execution"]["description"]
    assert f"at most {OPEN:,}" in shown["active_executions"]["description"]


def test_every_reference_resolves() -> None:
    found = set(references(document()))
    assert found
    for reference in found:
        target: Any = document()
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_schemas_of_the_document_are_valid() -> None:
    assert document()["openapi"] == "3.1.0"
    for schema in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(document()).validate()


def test_every_body_has_examples_that_match_its_schema() -> None:
    for name, media in bodies():
        assert media.get("examples"), f"{name} has no example"
        validator = Draft202012Validator(media["schema"] | {"components": document()["components"]})
        for label, example in media["examples"].items():
            faults = [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(example["value"])]
            assert faults == [], f"{name}, example {label}"


def test_every_path_parameter_has_an_example() -> None:
    for path, found in document()["paths"].items():
        parameters = found.get("parameters", [])
        assert {parameter["name"] for parameter in parameters} == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["example"] for parameter in parameters)


def test_every_operation_has_an_id_a_summary_and_its_success() -> None:
    found = [operation for _, operation in operations()]
    assert len({operation["operationId"] for operation in found}) == len(found)
    for operation in found:
        assert operation["summary"]
        assert any(status.startswith("2") for status in operation["responses"])


def codes(operation: dict[str, Any], status: int) -> set[str]:
    schema = resolved(operation["responses"][str(status)])["content"]["application/json"]["schema"]
    found: list[str] = schema["allOf"][1]["properties"]["error"]["properties"]["code"]["enum"]
    return set(found)


def test_every_operation_except_health_needs_a_key_and_may_be_limited() -> None:
    for name, operation in operations():
        guarded = name not in {"GET /health/live", "GET /health/ready"}
        assert ("security" in operation) is guarded
        for status, code in ((401, "UNAUTHORIZED"), (403, "FORBIDDEN"), (429, "RATE_LIMITED")):
            assert (str(status) in operation["responses"]) is guarded
            assert not guarded or codes(operation, status) == {code}
        assert codes(operation, 500) == {"INTERNAL_ERROR"}
        assert codes(operation, 503) == {"SERVICE_UNAVAILABLE"}


def test_every_operation_lists_its_error_codes() -> None:
    paths = document()["paths"]
    assert "EXECUTION_NOT_CANCELLABLE" in codes(paths["/jobs/{job_id}/cancel"]["post"], 409)
    assert codes(paths["/configs/{name}"]["delete"], 409) == {"CONFLICT"}
    assert {"INPUT_VALIDATION_FAILED", "INVALID_CRON"} <= codes(paths["/jobs"]["post"], 422)
    assert codes(paths["/endpoints"]["post"], 422) == {
        "IDEMPOTENCY_KEY_REUSED",
        "INVALID_CALLBACK",
        "INVALID_CONFIG_REF",
        "INVALID_PAYLOAD_SPEC_REF",
        "TEMPLATE_RESOLUTION_FAILED",
    }
    assert codes(paths["/configs"]["post"], 422) == {"IDEMPOTENCY_KEY_REUSED"}
    assert "422" not in paths["/configs/{name}"]["put"]["responses"]


def test_outputs_and_errors_of_attempts_are_described() -> None:
    schemas = document()["components"]["schemas"]
    for name in ("Execution", "Attempt"):
        named = {option.get("$ref", "").rsplit("/", 1)[-1] for option in schemas[name]["properties"]["output"]["anyOf"]}
        outputs = {type(transport.output).__name__ for transport in TRANSPORTS.values()}
        assert named == outputs | {"IgnoredError", ""}  # the last one is null
    error = schemas["AttemptError"]
    assert {"status_code", "retryable", "rejected", "may_have_been_delivered"} < set(error["properties"])
    assert error["required"] == ["message", "type"]


def test_document_describes_the_header_of_a_replay() -> None:
    answers = document()["paths"]["/jobs"]["post"]["responses"]
    assert "Idempotency-Replayed" in answers["200"]["headers"]
    assert "headers" not in answers["201"]


def test_document_describes_a_query_beside_a_header() -> None:
    for path in ("/jobs/{job_id}/cancel", "/executions/{execution_id}/cancel"):
        named = {parameter["name"] for parameter in document()["paths"][path]["post"]["parameters"]}
        assert named == {"if_running", "Idempotency-Key"}


def test_description_lists_the_errors_outside_of_operations() -> None:
    for code in ("NOT_FOUND", "METHOD_NOT_ALLOWED", "REQUEST_TIMEOUT", "URI_TOO_LONG", "HEADERS_TOO_LARGE"):
        assert f"`{code}`" in document()["info"]["description"]


def test_request_examples_work_in_order(api: Api) -> None:
    """Send setup, registration, jobs, a change, a batch and a preview as in the document."""
    paths = document()["paths"]
    for path in ("/payload-specs", "/configs", "/secrets", "/endpoints", "/jobs", "/cron/preview", "/jobs/batch"):
        media = paths[path]["post"]["requestBody"]["content"]["application/json"]
        for label, example in media["examples"].items():
            response = api.post(path, example["value"])
            assert response.status_code in {200, 201}, (path, label, response.get_data(as_text=True))
