"""Refused bodies: a 4xx that points at the faults, never a 500."""

import io
import logging
from typing import Any

import pytest

from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.http.malformed import MALFORMED
from tests.integration.registered import http_endpoint, one_shot

JSON = "application/json"


@each_case("body", MALFORMED.values(), ids=MALFORMED)
@each_case(("method", "path"), [("POST", "/configs"), ("PUT", "/configs/x"), ("POST", "/jobs")])
def test_malformed_body_is_refused(
    shared_api: Api, caplog: pytest.LogCaptureFixture, method: str, path: str, body: bytes
) -> None:
    """The service's own checks refuse the body; the checks of the database, which log a warning, are a safety net."""
    caplog.clear()
    problem(shared_api.send(method, path, data=body, content_type=JSON), 400, "INVALID_REQUEST")
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


WRONG = [
    ("POST", "/configs", {}, ["/name", "/values"]),
    ("POST", "/configs", {"name": 1, "values": []}, ["/name", "/values"]),
    ("POST", "/configs", {"name": None, "values": None}, ["/name", "/values"]),
    ("POST", "/configs", {"name": "x", "values": {}, "extra": 1, "a/b~c": 2}, ["/extra", "/a~1b~0c"]),
    ("POST", "/secrets", {"name": "x", "value": ""}, ["/value"]),
    ("POST", "/secrets", {"name": "x", "value": "abc"}, ["/value"]),
    ("PUT", "/secrets/x", {"value": "abc"}, ["/value"]),
    ("PUT", "/secrets/x", {"value": "v" * 8_193}, ["/value"]),
    ("POST", "/secrets", {"name": "x", "value": 7}, ["/value"]),
    ("POST", "/secrets", {"name": "x", "value": "v" * 8_193}, ["/value"]),
    ("POST", "/payload-specs", {"name": "x"}, ["/schema"]),
    ("POST", "/endpoints", {"name": "x"}, ["/type", "/spec"]),
    ("POST", "/endpoints", http_endpoint(type="FTP"), ["/type"]),
    ("POST", "/endpoints", http_endpoint(type="http"), ["/type"]),
    ("POST", "/endpoints", http_endpoint(spec="x"), ["/spec"]),
    ("POST", "/endpoints", http_endpoint(retry_policy={"max_attempts": 0}), ["/retry_policy/max_attempts"]),
    ("POST", "/endpoints", http_endpoint(retry_policy={"tries": 1}), ["/retry_policy/tries"]),
    ("POST", "/jobs", {}, ["/endpoint", "/trigger"]),
    ("POST", "/jobs", one_shot("k", trigger="SOON"), ["/trigger"]),
    ("POST", "/jobs", one_shot("k", trigger=1), ["/trigger"]),
    ("POST", "/jobs", one_shot("k", input=[]), ["/input"]),
    ("POST", "/jobs", one_shot("k", input="x"), ["/input"]),
    ("POST", "/jobs", one_shot(""), ["/idempotency_key"]),
    ("POST", "/jobs", one_shot("k" * 256), ["/idempotency_key"]),
    ("POST", "/jobs", {"endpoint": "target", "trigger": "IMMEDIATE"}, ["/idempotency_key"]),
    ("POST", "/jobs", one_shot("k", run_at="2030-01-01T00:00:00Z"), ["/run_at"]),
    ("POST", "/jobs", one_shot("k", trigger="DELAYED"), ["/run_at"]),
    ("POST", "/jobs", one_shot("k", trigger="CRON"), ["/cron", "/timezone"]),
]


@each_case(("method", "path", "body", "expected"), WRONG)
def test_pointer_names_the_invalid_field(
    shared_api: Api, method: str, path: str, body: Any, expected: list[str]
) -> None:
    assert sorted(pointers(problem(shared_api.send(method, path, json=body), 400, "INVALID_REQUEST"))) == sorted(
        expected
    )


RATE = {"count": 1, "per": "1s"}
LATER = "2090-01-01T00:00:00Z"
MESSAGES = [
    (
        "/endpoints",
        http_endpoint(spec={"url": "ftp://x"}),
        "http:// or https:// and a host; a password in the URL must be a {{secret.NAME}} placeholder.",
    ),
    ("/jobs", {"url": "http://x/", "delay": "1h", "every": "1h"}, "/every: Not together with `delay`."),
    ("/jobs", {"url": "http://x/", "trigger": "CRON", "delay": "1h"}, "/delay: Only for DELAYED jobs;"),
    ("/jobs", {"url": "http:///path"}, "/url: Must start with http:// or https:// and a host."),
    ("/endpoints", http_endpoint(spec={"url": "http://x/{{input.a"}), "not balanced. Write {{input.NAME}}."),
    ("/endpoints", http_endpoint(retry_policy={"attempts": 1}), "Unknown field. Did you mean 'max_attempts'?"),
    ("/endpoints", http_endpoint(spec={"url": "http://x/", "header": {}}), "Unknown field. Did you mean 'headers'?"),
    ("/jobs", one_shot("k", dela="1h"), "/dela: Unknown field. Did you mean 'delay'?"),
    ("/jobs", one_shot("k", zzz=1), "/zzz: Unknown field."),
    ("/jobs", one_shot("k", input=[]), "/input: Must be an object."),
    (
        "/jobs",
        {"url": "http://x/", "cron": "* * * * *", "timezone": "berlin"},
        "such as Europe/Berlin or UTC. Did you mean 'Europe/Berlin'?",
    ),
    ("/jobs", one_shot("k", delay="1h"), "/delay: Only for DELAYED jobs; `trigger` is IMMEDIATE."),
    ("/jobs", one_shot("k", ends_at=LATER), "/ends_at: Only for CRON and INTERVAL jobs; `trigger` is IMMEDIATE."),
    (
        "/endpoints",
        http_endpoint(limits={"rate": RATE | {"zzz": 1}}),
        "Unknown field. Known: burst, count, per, window.",
    ),
    ("/endpoints", http_endpoint(config="nope"), "no config named 'nope'. Create it first: POST /configs."),
    ("/endpoints", http_endpoint(payload_spec="nope"), "named 'nope'. Create it first: POST /payload-specs."),
    (
        "/endpoints",
        http_endpoint(spec={"url": "http://x/", "headers": {"A": "{{secret.nope}}"}}),
        "no such secret. Create it first: POST /secrets.",
    ),
    ("/endpoints", http_endpoint(spec={"url": "http://x/{{config.a}}"}), "the name of a config in `config`."),
    ("/bulk-operations", {"action": "cancel", "wanted": {}}, "/all: Must be true, because `wanted` filters by state"),
    ("/redrives", {"wanted": {}}, "/all: Must be true, because `wanted` is empty: confirm that all open dead letters"),
    (
        "/payload-specs",
        {"name": "s", "schema": {"type": "objekt"}},
        "/type: 'objekt' is not a type. Did you mean 'object'?",
    ),
]


@each_case(("path", "body", "message"), MESSAGES)
def test_message_names_the_remedy(shared_api: Api, path: str, body: Any, message: str) -> None:
    assert message in shared_api.post(path, body).json["error"]["message"]


def test_path_and_method_have_a_remedy(shared_api: Api) -> None:
    assert "It supports GET, POST." in problem(shared_api.send("DELETE", "/jobs"), 405, "METHOD_NOT_ALLOWED")["message"]
    missing = problem(shared_api.get("/execution"), 404, "NOT_FOUND")["message"]
    assert missing == "There is nothing at this path. Did you mean '/executions'? GET /docs lists all paths."


@each_case(
    ("body", "fault"),
    [
        (b'{"endpoint": "x",\n "input" 1}', "not valid JSON: line 2, column 10: Expecting"),
        (
            b'{"a": 1, "b": {"a": 2},\n"a": 3}',
            "not valid JSON: line 2, column 1: an object has the same key twice: 'a'.",
        ),
        (b'{"a}": "NaN", "b": [{}, NaN]}', "not valid JSON: line 1, column 25: NaN and Infinity are not JSON."),
        (b"[1,\n\n -1e999]", "not valid JSON: line 3, column 2: a number is too large."),
        (b"[" + b"1" * 39 + b"]", "not valid JSON: line 1, column 2: a number has more than 38 digits."),
        (b'{"\xc3\xa4": "\xff"}', "not UTF-8: line 1, column 8."),
    ],
)
def test_fault_of_json_has_a_line_and_a_column(shared_api: Api, body: bytes, fault: str) -> None:
    answer = shared_api.send("POST", "/jobs", data=body, content_type=JSON)
    assert fault in problem(answer, 400, "INVALID_REQUEST")["message"]


@each_case("name", ["", "A", "a_b", "-a", "a-", "a--b", "a b", "a/b", "a\n", "é", "a" * 129, "..", "\u0661"])
def test_unsafe_name_is_refused(shared_api: Api, name: str) -> None:
    for path, rest in (("/configs", {"values": {}}), ("/payload-specs", {"schema": {}}), ("/endpoints", {})):
        body = {**http_endpoint(), "name": name} if path == "/endpoints" else {"name": name, **rest}
        assert "/name" in pointers(problem(shared_api.post(path, body), 400, "INVALID_REQUEST"))


INSTANTS = [
    *(
        "",
        "now",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01 00:00:00Z",
        "20300101T000000Z",
        "2030-W01-1T00:00:00Z",
    ),
    *("2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01T24:01:00Z", "2030-01-01T00:00:60Z"),
    *("2030-01-01T00:00:00+25:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z"),
    *("2200-01-01T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", "2030-01-01T00:00:00Z\n", "2030-01-01T00:00:00.1234567890Z"),
    *(0, 1893456000, True, ["2030-01-01T00:00:00Z"], {}),
]


@each_case("instant", INSTANTS)
def test_instant_needs_an_offset_and_a_year_in_range(shared_api: Api, instant: Any) -> None:
    error = problem(shared_api.post("/jobs", one_shot("k", trigger="DELAYED", run_at=instant)), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/run_at"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_unsupported_content_type_is_415(shared_api: Api, content_type: str | None) -> None:
    problem(shared_api.send("POST", "/configs", data=b"{}", content_type=content_type), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_too_large_body_is_413(shared_api: Api) -> None:
    body = {"name": "x", "values": {"a": "v" * 10_000_000}}
    problem(shared_api.post("/configs", body), 413, "PAYLOAD_TOO_LARGE")


def test_disconnect_during_the_body_is_400(api: Api) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError("connection reset")

        readinto = read  # type: ignore[assignment]

    body = Broken(b'{"name": "x", "values": {}}')
    response = api.send("POST", "/configs", input_stream=body, content_type=JSON, content_length=27)
    problem(response, 400, "INVALID_REQUEST")
