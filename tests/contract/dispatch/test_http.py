"""HTTP deliveries to a real receiver, and to servers that misbehave on the wire."""

import asyncio
import base64
import email.utils
import gzip
import hashlib
import hmac
import json
import time
from contextlib import asynccontextmanager

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from actors.dispatch.http import KEPT_BYTES, USER_AGENT, HttpDispatcher
from actors.dispatch.http_outcome import retry_after_ms
from actors.dispatch.per_host import PerHostLimit
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, TRACEPARENT, Opening, failure, identity, rendered, run


def dispatcher(guard=OPEN, per_host=10):
    return Opening(HttpDispatcher, guard, per_host=per_host)


def spec(url, **fields):
    return rendered(EndpointType.HTTP, {"url": url, **fields})


def send(url, who=None, **fields):
    return run(dispatcher(), lambda http: http.send(spec(url, **fields), who or identity()))


def fail(url, *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda http: failure(http, spec(url, **fields)))


@asynccontextmanager
async def server(answer):
    """Serve connections by hand: `answer(reader, writer, number)`, the number counting connections from 1."""
    count, handlers = 0, set()

    async def handle(reader, writer):
        nonlocal count
        count += 1
        handlers.add(asyncio.current_task())
        try:
            await answer(reader, writer, count)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


# what is sent


def test_a_request_carries_body_headers_and_identity(receiver):
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


def test_a_signed_request_tells_who_sent_it_and_when(receiver):
    """Checked by the receiver's side of Standard Webhooks, written here from its specification."""
    keys = {"secret": "whsec_" + base64.b64encode(b"k" * 24).decode(), "previous_secret": "plain-old-secret"}
    send(receiver.url("/ok/signed"), body_template={"a": "ü"}, signing=keys)
    (received,) = receiver.wait_for(1, path="/ok/signed")
    assert received.headers["webhook-id"] == "exec_1"
    assert abs(int(received.headers["webhook-timestamp"]) - received.time) < 30
    content = b"exec_1." + received.headers["webhook-timestamp"].encode() + b"." + received.body
    wanted = [
        "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for key in (b"k" * 24, b"plain-old-secret")
    ]
    assert received.headers["webhook-signature"].split(" ") == wanted


def test_a_signing_secret_that_is_none_fails_for_good(receiver):
    error = fail(receiver.url("/ok/unsigned"), signing={"secret": "whsec_not base64!"})
    assert (error.type, error.permanent) == ("TEMPLATE_RESOLUTION_FAILED", True)
    assert "not base64!" not in error.message
    assert receiver.wait_for(0, path="/ok/unsigned") == []


def test_the_url_goes_out_as_it_is_written():
    async def main(http):
        seen = []

        async def answer(reader, writer, _):
            seen.append((await read_request(reader))[0].split(b"\r\n")[0])
            writer.write(OK)

        async with server(answer) as base:
            await http.send(spec(base + "/a%2Fb/%7Ec%2e;x?q=%26%3D+%20'#frag"), identity())
        return seen

    assert run(dispatcher(), main) == [b"POST /a%2Fb/%7Ec%2e;x?q=%26%3D+%20' HTTP/1.1"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [None, {"a": 1}])
def test_every_method_with_and_without_a_body(receiver, method, body):
    path = f"/ok/{method}-{body is None}"
    send(receiver.url(path), method=method, body_template=body)
    (received,) = receiver.wait_for(1, path=path)
    assert received.method == method
    assert received.body == (b"" if body is None else b'{"a":1}')
    assert ("Content-Type" in received.headers) == (body is not None)


@pytest.mark.parametrize(
    ("body", "content_type", "wanted"),
    [
        ("<x/>", "application/xml", b"<x/>"),
        ("text", "application/json; charset=utf-8", b'"text"'),
        ({"a": 1}, "application/vnd.me", b'{"a":1}'),
        ([], "text/plain", b"[]"),
    ],
)
def test_a_text_of_another_content_type_is_sent_as_it_is(receiver, body, content_type, wanted):
    path = "/ok/" + base64.urlsafe_b64encode(wanted + content_type.encode()).decode()
    send(receiver.url(path), body_template=body, headers={"content-type": content_type})
    (received,) = receiver.wait_for(1, path=path)
    assert received.body == wanted
    assert received.headers.getall("Content-Type") == [content_type]


def test_a_user_agent_of_ones_own(receiver):
    send(receiver.url("/ok/agent"), headers={"user-agent": "me"})
    assert receiver.wait_for(1, path="/ok/agent")[0].headers.getall("User-Agent") == ["me"]


@pytest.mark.parametrize(("headers", "wanted"), [({}, "Basic dTpwOkA="), ({"authorization": "Bearer x"}, "Bearer x")])
def test_credentials_in_the_url_become_a_header(receiver, headers, wanted):
    path = f"/ok/auth/{len(headers)}"
    send(receiver.url(path).replace("//", "//u:p%3A%40@"), headers=headers)
    assert receiver.wait_for(1, path=path)[0].headers["Authorization"] == wanted


# what comes back


def test_an_unexpected_status_fails_with_its_body(receiver):
    error = fail(receiver.url("/status/500"))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("HTTP_ERROR", False, False)
    assert error.extra == {"status_code": 500, "body": '{"status": 500}'}
    assert "500 Internal Server Error" in error.message
    assert fail(receiver.url("/status/299")).extra["status_code"] == 299


def test_the_expected_statuses_are_the_endpoints_own(receiver):
    assert send(receiver.url("/status/404"), expected_status_codes=[404])["status_code"] == 404
    assert fail(receiver.url("/ok"), expected_status_codes=[404]).extra["status_code"] == 200


def test_gone_is_for_good(receiver):
    assert fail(receiver.url("/status/410")).permanent
    assert send(receiver.url("/status/410"), expected_status_codes=[410])["status_code"] == 410


def test_a_redirect_is_not_followed(receiver):
    error = fail(receiver.url("/redirect"))
    assert (error.type, error.extra["status_code"]) == ("HTTP_ERROR", 302)
    assert not receiver.record.matching("/ok/redirected")


def test_cookies_are_not_kept(receiver):
    async def main(http):
        async def answer(reader, writer, _):
            heads.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

        heads = []
        async with server(answer) as base:
            for _ in range(2):
                await http.send(spec(base + "/"), identity())
        return heads

    assert not any(b"cookie" in head.lower() for head in run(dispatcher(), main))


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_handed_on(receiver, status):
    assert fail(receiver.url(f"/retry-after/7/{status}?status={status}")).retry_after_ms == 7000


def test_retry_after_counts_for_429_and_503_only(receiver):
    assert fail(receiver.url("/retry-after/7/500?status=500")).retry_after_ms is None


NOW = 1_700_000_000.0
DAY = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("", None),
        ("0", None),
        (" 5 ", 5000),
        ("-5", None),
        ("1.5", None),
        ("99999999", DAY),
        ("9" * 400, None),
        (email.utils.formatdate(NOW + 90, usegmt=True), 90_000),
        (email.utils.formatdate(NOW - 90, usegmt=True), None),
        (email.utils.formatdate(NOW + 1e8, usegmt=True), DAY),
        ("Mon, 99 Foo 2026 00:00:00 GMT", None),
        ("soon", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, wanted):
    assert retry_after_ms(value, NOW) == wanted


def test_a_long_body_is_cut_and_the_connection_closed(receiver):
    output = send(receiver.url("/big"), timeout_ms=10_000)
    assert output == {"status_code": 200, "body": "x" * KEPT_BYTES}


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"a\0b", "ab"), (b"\xff\xfe", "��"), ("é😀".encode(), "é😀"), (b"\xed\xa0\x80", "���"), (b"", "")],
)
def test_a_body_becomes_text_that_the_database_holds(raw, text):
    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw))

        async with server(answer) as base:
            return await http.send(spec(base), identity())

    assert run(dispatcher(), main)["body"] == text


def test_a_compressed_body_is_not_unpacked():
    """A few bytes could become gigabytes."""
    packed = gzip.compress(b"x" * 100_000)

    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
            writer.write(head + packed)

        async with server(answer) as base:
            return await http.send(spec(base), identity())

    assert len(run(dispatcher(), main)["body"]) <= len(packed)


def test_a_body_without_end_is_a_success_all_the_same():
    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()

        async with server(answer) as base:
            return await http.send(spec(base, timeout_ms=30_000), identity())

    assert len(run(dispatcher(), main)["body"]) == KEPT_BYTES


# what goes wrong


def test_a_receiver_that_hangs_is_a_timeout_that_may_have_delivered(receiver):
    started = time.monotonic()
    error = fail(receiver.url("/hang"), timeout_ms=200)
    assert time.monotonic() - started > 0.15
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("TIMEOUT", True, False)


def test_the_timeout_bounds_a_body_that_drips(receiver):
    error = fail(receiver.url("/drip"), timeout_ms=350)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)


def test_a_refused_connection_delivered_nothing(receiver):
    error = fail("http://127.0.0.1:1/")
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", False, False)
    assert error.message == "cannot connect to 127.0.0.1:1: Connection refused"


@pytest.mark.parametrize("host", ["nope.invalid", "a" * 70 + ".example"])
def test_a_name_without_address(host):
    error = fail(f"http://{host}/")
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", False, False)
    assert "resolved" in error.message


@pytest.mark.parametrize("url", ["http://h:99999/", "http://h:x/", "http://[::1/", "http://127.1/", "http://a b/"])
def test_a_url_that_nobody_can_use(url):
    raw = spec("http://h/") | {"url": url}
    error = run(dispatcher(), lambda http: failure(http, raw))
    assert error.type == "CONNECTION_ERROR"
    assert not error.may_have_been_delivered


def test_closing_in_the_middle_of_the_body(receiver):
    error = fail(receiver.url("/close"))
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)
    assert "middle" in error.message


def test_an_answer_that_is_not_http(receiver):
    error = fail(receiver.url("/garbage"))
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)
    assert "not valid HTTP" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 2000000000000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000,
    ],
    ids=["nothing", "status", "length", "chunk", "long-header", "many-headers"],
)
def test_other_rubbish(answer):
    async def main(http):
        async def rubbish(reader, writer, _):
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

        async with server(rubbish) as base:
            return await failure(http, spec(base, timeout_ms=30_000))

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)


def test_plain_text_where_tls_is_spoken(receiver):
    error = fail(receiver.url("/ok").replace("http:", "https:"))
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", False)
    assert "TLS" in error.message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_a_stale_connection_is_a_failed_attempt_not_a_second_send(method):
    """aiohttp would send a GET, PUT or DELETE again by itself: two sends, one of them not counted."""
    seen = []

    async def answer(reader, writer, connection):
        seen.append((connection, (await read_request(reader))[0][:3]))
        writer.write(OK)
        if connection == 1:
            seen.append((connection, (await read_request(reader))[0][:3]))  # and hang up without an answer
        else:
            await reader.read()

    async def main(http):
        async with server(answer) as base:
            await http.send(spec(base, method=method), identity())
            error = await failure(http, spec(base, method=method))
            await http.send(spec(base, method=method), identity())
            return error

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)
    assert [connection for connection, _ in seen] == [1, 1, 2]


def test_connections_are_kept_and_capped(receiver):
    async def main(http):
        peers = set()

        async def answer(reader, writer, connection):
            peers.add(connection)
            while True:
                await read_request(reader)
                writer.write(OK)

        async with server(answer) as base:
            await asyncio.gather(*(http.send(spec(base), identity()) for _ in range(20)))
            await http.send(spec(base), identity())
        return peers

    assert len(run(dispatcher(per_host=3), main)) == 3


# where it goes


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_the_guard_stands_before_every_connection(receiver, host):
    guard = EgressGuard.from_settings("public-only", [], [])
    error = fail(f"http://{host}:{receiver.port}/ok/guarded", guard=guard)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)
    assert "egress" in error.message
    assert not receiver.record.matching("/ok/guarded")


def test_an_allowed_network_is_reached(receiver):
    guard = EgressGuard.from_settings("public-only", ["127.0.0.0/8"], [])
    url = f"http://localhost:{receiver.port}/ok"
    assert run(dispatcher(guard), lambda http: http.send(spec(url), identity()))["status_code"] == 200


def test_proxies_of_the_environment_are_not_used(receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert json.loads(send(receiver.url("/ok"))["body"]) == {"ok": True}


def test_waiting_for_a_turn_does_not_count_against_the_timeout(receiver):
    """One connection to the host and three deliveries: together they take longer than the timeout of each."""
    slow = spec(receiver.url("/slow/800/turns"), timeout_ms=2000)

    async def three(http):
        return await asyncio.gather(*(http.send(slow, identity(f"exec_{n}")) for n in range(3)))

    answers = run(dispatcher(per_host=1), three)
    assert [answer["status_code"] for answer in answers] == [200, 200, 200]
    assert len(receiver.wait_for(3, path="/slow/800/turns")) == 3


def test_a_target_that_nobody_uses_is_forgotten():
    async def use():
        turns = PerHostLimit(1)
        async with turns.take("a"), turns.take("b"):
            assert turns.targets_in_use == 2
        return turns.targets_in_use

    assert asyncio.run(use()) == 0
