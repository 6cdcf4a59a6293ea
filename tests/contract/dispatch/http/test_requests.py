"""HTTP requests as a receiver gets them."""

import base64
import gc
import hashlib
import hmac
import tracemalloc

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http import USER_AGENT
from tests.contract.dispatch.dispatching import TRACEPARENT, failure, identity, run
from tests.contract.dispatch.http.deliveries import OK, dispatcher, fail, read_request, send, server, spec


def test_request_carries_body_headers_and_identity(receiver):
    url = receiver.url("/ok/carries?a=%2F%20b&c=d%2Be")
    output = send(url, identity(attempt=3), body_template={"ä": [1, 2.5, None]}, headers={"X-Mine": "é"})
    assert output == {"status_code": 200, "body": '{"ok": true}'}
    (received,) = receiver.wait_for(1, path="/ok/carries")
    assert received.json == {"ä": [1, 2.5, None]}
    assert received.method == "POST"
    assert dict(received.query) == {"a": "/ b", "c": "d+e"}
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert headers.pop("host") == f"127.0.0.1:{receiver.port}"
    assert headers == {
        "accept": "*/*",
        "content-type": "application/json",
        "content-length": str(len(received.body)),
        "user-agent": USER_AGENT,
        "x-mine": "é",
        "idempotency-key": "exec_1",
        "x-task-executor-job-id": "job_1",
        "x-task-executor-execution-id": "exec_1",
        "x-task-executor-attempt": "3",
        "x-task-executor-scheduled-at": "2026-03-15T10:00:00.123Z",
        "traceparent": TRACEPARENT,
    }


def test_endpoint_headers_do_not_override_the_identity(receiver):
    """Two requests, because requests with the same headers share their encoded form."""
    headers = {"idempotency-key": "mine", "X-Task-Executor-Attempt": "9", "Traceparent": "mine", "Tracestate": "a=1"}
    headers |= {"X-Mine": "yes", "X-Task-Executor-Attempt-Signature": "v1,mine"}
    for number in (1, 2):
        send(receiver.url("/ok/own"), identity(f"exec_{number}", attempt=number), headers=headers)
    for number, received in enumerate(receiver.wait_for(2, path="/ok/own"), 1):
        assert received.headers.getall("Idempotency-Key") == [f"exec_{number}"]
        assert received.headers.getall("X-Task-Executor-Attempt") == [str(number)]
        assert received.headers.getall("traceparent") == [TRACEPARENT]
        assert {"tracestate", "X-Task-Executor-Attempt-Signature"}.isdisjoint(received.headers)
        assert received.headers["X-Mine"] == "yes"


def test_signature_covers_execution_time_body_and_attempt(receiver):
    """The test verifies the signatures independently, from the specification of Standard Webhooks."""
    keys = {"secret": "whsec_" + base64.b64encode(b"k" * 24).decode(), "previous_secret": "plain-old-secret"}
    send(receiver.url("/ok/signed"), body_template={"a": "ü"}, signing=keys)
    (received,) = receiver.wait_for(1, path="/ok/signed")
    assert received.headers["webhook-id"] == "exec_1"
    assert abs(int(received.headers["webhook-timestamp"]) - received.time) < 30
    content = b"exec_1." + received.headers["webhook-timestamp"].encode() + b"." + received.body

    def sign(key, content):
        return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()

    both = (b"k" * 24, b"plain-old-secret")
    expected = [sign(key, content) for key in both]
    assert received.headers["webhook-signature"].split(" ") == expected
    for_attempt = [sign(key, f"attempt:1:{signature}".encode()) for key, signature in zip(both, expected, strict=True)]
    assert received.headers.getall("X-Task-Executor-Attempt-Signature") == [" ".join(for_attempt)]


@pytest.mark.parametrize("secret", ["whsec_not base64!", "whsec_é"])
def test_invalid_signing_secret_fails_permanently(receiver, secret):
    error = fail(receiver.url("/ok/unsigned"), signing={"secret": secret})
    assert (error.type, error.permanent) == ("TEMPLATE_RESOLUTION_FAILED", True)
    assert "not base64!" not in error.message
    assert receiver.wait_for(0, path="/ok/unsigned") == []


def test_url_is_sent_as_configured():
    async def main(http):
        request_lines = []

        async def answer(reader, writer, _):
            request_lines.append((await read_request(reader))[0].split(b"\r\n")[0])
            writer.write(OK)

        async with server(answer) as base:
            await http.send(spec(base + "/a%2Fb/%7Ec%2e;x?q=%26%3D+%20'#frag"), identity())
        return request_lines

    assert run(dispatcher(), main) == [b"POST /a%2Fb/%7Ec%2e;x?q=%26%3D+%20' HTTP/1.1"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [None, {"a": 1}])
def test_each_method_is_sent_with_and_without_a_body(receiver, method, body):
    path = f"/ok/{method}-{body is None}"
    send(receiver.url(path), method=method, body_template=body)
    (received,) = receiver.wait_for(1, path=path)
    assert received.method == method
    assert received.body == (b"" if body is None else b'{"a":1}')
    assert ("Content-Type" in received.headers) == (body is not None)


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("<x/>", "application/xml", b"<x/>"),
        ("text", "application/json; charset=utf-8", b'"text"'),
        ({"a": 1}, "application/vnd.me", b'{"a":1}'),
        ([], "text/plain", b"[]"),
    ],
)
def test_text_body_is_sent_unencoded_unless_the_content_type_is_json(receiver, body, content_type, expected):
    path = "/ok/" + base64.urlsafe_b64encode(expected + content_type.encode()).decode()
    send(receiver.url(path), body_template=body, headers={"content-type": content_type})
    (received,) = receiver.wait_for(1, path=path)
    assert received.body == expected
    assert received.headers.getall("Content-Type") == [content_type]


def test_endpoint_can_set_the_user_agent(receiver):
    send(receiver.url("/ok/agent"), headers={"user-agent": "me"})
    assert receiver.wait_for(1, path="/ok/agent")[0].headers.getall("User-Agent") == ["me"]


@pytest.mark.parametrize(("headers", "expected"), [({}, "Basic dTpwOkA="), ({"authorization": "Bearer x"}, "Bearer x")])
def test_credentials_of_the_url_become_a_header_unless_configured(receiver, headers, expected):
    path = f"/ok/auth/{len(headers)}"
    send(receiver.url(path).replace("//", "//u:p%3A%40@"), headers=headers)
    assert receiver.wait_for(1, path=path)[0].headers["Authorization"] == expected


def test_requests_from_long_inputs_are_not_cached():
    """An input can have a megabyte, and inputs differ, so a cache would only grow."""

    async def main(http):
        tracemalloc.start()
        for number in range(40):
            long = f"{number:0100000}"
            fields = {"url": f"http://127.0.0.1:1/{long}", "headers": {"X-Text": long}}
            await failure(http, spec("http://h") | fields)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    try:
        assert run(dispatcher(), main) < 2_000_000
    finally:
        tracemalloc.stop()
