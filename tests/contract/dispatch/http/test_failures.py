"""HTTP deliveries that fail on the wire, and the egress guard."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.http.deliveries import OK, dispatcher, fail, read_request, send, server, spec


def test_hanging_receiver_is_a_timeout_that_may_have_been_delivered(receiver):
    started = time.monotonic()
    error = fail(receiver.url("/hang"), timeout_ms=200)
    assert time.monotonic() - started > 0.15
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("TIMEOUT", True, False)


def test_timeout_bounds_a_slowly_sent_body(receiver):
    error = fail(receiver.url("/drip"), timeout_ms=350)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)


def test_refused_connection_delivers_nothing(receiver):
    error = fail("http://127.0.0.1:1/")
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", False, False)
    assert error.message == "cannot connect to 127.0.0.1:1: Connection refused"


@pytest.mark.parametrize("host", ["nope.invalid", "a" * 70 + ".example"])
def test_host_name_without_an_address_is_a_retryable_error(host):
    error = fail(f"http://{host}/")
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", False, False)
    assert "resolved" in error.message


@pytest.mark.parametrize("url", ["http://h:99999/", "http://h:x/", "http://[::1/", "http://127.1/", "http://a b/"])
def test_invalid_url_delivers_nothing(url):
    raw = spec("http://h/") | {"url": url}
    error = run(dispatcher(), lambda http: failure(http, raw))
    assert error.type == "CONNECTION_ERROR"
    assert not error.may_have_been_delivered


def test_connection_closed_within_the_body_may_have_delivered(receiver):
    error = fail(receiver.url("/close"))
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)
    assert "middle" in error.message


def test_answer_that_is_not_http_may_have_delivered(receiver):
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
def test_malformed_answer_may_have_delivered(answer):
    async def main(http):
        async def malformed(reader, writer, _):
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

        async with server(malformed) as base:
            return await failure(http, spec(base, timeout_ms=30_000))

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)


def test_https_to_a_plain_text_server_delivers_nothing(receiver):
    error = fail(receiver.url("/ok").replace("http:", "https:"))
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", False)
    assert "TLS" in error.message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_stale_connection_fails_the_attempt_without_a_second_send(method):
    """Many HTTP clients repeat a GET, PUT or DELETE themselves. Such a second send would be no counted attempt."""
    received = []

    async def answer(reader, writer, connection):
        received.append((connection, (await read_request(reader))[0][:3]))
        writer.write(OK)
        if connection == 1:
            received.append(
                (connection, (await read_request(reader))[0][:3])
            )  # the connection then closes without an answer
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
    assert [connection for connection, _ in received] == [1, 1, 2]


def test_connections_per_host_are_reused_and_limited(receiver):
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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_egress_guard_checks_every_connection(receiver, host):
    guard = EgressGuard.from_settings("public-only", [], [])
    error = fail(f"http://{host}:{receiver.port}/ok/guarded", guard=guard)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)
    assert "egress" in error.message
    assert not receiver.record.matching("/ok/guarded")


def test_allowed_network_is_reached(receiver):
    guard = EgressGuard.from_settings("public-only", ["127.0.0.0/8"], [])
    url = f"http://localhost:{receiver.port}/ok"
    assert run(dispatcher(guard), lambda http: http.send(spec(url), identity()))["status_code"] == 200


def test_proxy_of_the_environment_is_not_used(receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert json.loads(send(receiver.url("/ok"))["body"]) == {"ok": True}


def test_timeout_excludes_the_wait_for_a_connection(receiver):
    """Three deliveries share one connection; together they take longer than the timeout of each delivery."""
    slow = spec(receiver.url("/slow/800/turns"), timeout_ms=2000)

    async def three(http):
        return await asyncio.gather(*(http.send(slow, identity(f"exec_{n}")) for n in range(3)))

    answers = run(replace(dispatcher(per_host=1), patience_seconds=30), three)
    assert [answer["status_code"] for answer in answers] == [200, 200, 200]
    assert len(receiver.wait_for(3, path="/slow/800/turns")) == 3
