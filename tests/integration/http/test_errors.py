"""Missing resources, unsupported methods and request ids: 4xx with the documented envelope."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.integration.client import Api, problem
from tests.integration.registered import http_endpoint


@pytest.mark.parametrize(
    "path",
    ["/jobs/a%00b", "/configs/%00", "/executions/x%00/logs", "/jobs?status=%00", "/jobs?endpoint=a%00", "/jobs?%00=1"],
)
def test_nul_in_the_url_is_refused(shared_api: Api, path: str) -> None:
    problem(shared_api.send("GET", path), 400, "INVALID_REQUEST")


@each_case(
    ("path", "code"),
    [
        ("/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("/configs/nope", "CONFIG_NOT_FOUND"),
        ("/secrets/nope", "SECRET_NOT_FOUND"),
        ("/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("/jobs/nope", "JOB_NOT_FOUND"),
        ("/jobs/nope/executions", "JOB_NOT_FOUND"),
        ("/executions/nope", "EXECUTION_NOT_FOUND"),
        ("/executions/nope/attempts", "EXECUTION_NOT_FOUND"),
        ("/executions/nope/logs", "EXECUTION_NOT_FOUND"),
        ("/executions/%ED%A0%80", "EXECUTION_NOT_FOUND"),
        ("/nope", "NOT_FOUND"),
        ("/jobs/", "NOT_FOUND"),
        ("//jobs", "NOT_FOUND"),
        ("/configs/..%2Fjobs", "NOT_FOUND"),
    ],
)
def test_missing_resource_is_404(shared_api: Api, path: str, code: str) -> None:
    problem(shared_api.send("GET", path), 404, code)


@each_case(
    ("method", "path", "code"),
    [
        ("PUT", "/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("PUT", "/configs/nope", "CONFIG_NOT_FOUND"),
        ("PUT", "/secrets/nope", "SECRET_NOT_FOUND"),
        ("PUT", "/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("DELETE", "/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("DELETE", "/configs/nope", "CONFIG_NOT_FOUND"),
        ("DELETE", "/secrets/nope", "SECRET_NOT_FOUND"),
        ("DELETE", "/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("POST", "/jobs/nope/cancel", "JOB_NOT_FOUND"),
        ("POST", "/executions/nope/cancel", "EXECUTION_NOT_FOUND"),
    ],
)
def test_change_of_a_missing_resource_is_404(shared_api: Api, method: str, path: str, code: str) -> None:
    bodies: dict[str, Any] = {
        "/payload-specs/nope": {"schema": {}},
        "/configs/nope": {"values": {}},
        "/secrets/nope": {"value": "value-v"},
        "/endpoints/nope": {key: value for key, value in http_endpoint().items() if key != "name"},
    }
    kwargs = {"json": bodies[path]} if method == "PUT" else {}
    problem(shared_api.send(method, path, **kwargs), 404, code)


def test_unsupported_method_is_405(shared_api: Api) -> None:
    response = shared_api.send("PATCH", "/jobs")
    problem(response, 405, "METHOD_NOT_ALLOWED")
    assert {"GET", "POST"} <= set(response.headers["Allow"].replace(" ", "").split(","))


@pytest.mark.parametrize("given", ["abc", "A.b_c-1", "x" * 128])
def test_valid_request_id_is_kept(shared_api: Api, given: str) -> None:
    response = shared_api.send("GET", "/nope", headers={"X-Request-ID": given})
    assert problem(response, 404, "NOT_FOUND")["request_id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "é", "<script>", "a;b"])
def test_harmful_request_id_is_replaced(shared_api: Api, given: str) -> None:
    response = shared_api.send("GET", "/health/live", headers={"X-Request-ID": given})
    assert response.headers["X-Request-ID"].startswith("req_")
