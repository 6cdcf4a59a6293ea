"""Failed deliveries to Redis Streams: the type and the message of each error, and whether it is permanent."""

import asyncio
import contextlib
import socket
import time

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.lossy import LossyProxy
from tests.contract.dispatch.redis.deliveries import dispatcher, fail, send, spec


def test_key_of_another_type_fails_permanently(valkey, client):
    client.set("s", "a string")
    error = fail(valkey.url)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", True, False)
    assert "WRONGTYPE" in error.message
    assert "WRONGTYPE" not in error.own_message


def test_out_of_memory_answer_is_retryable(valkey, client):
    client.config_set("maxmemory", 1)
    try:
        error = fail(valkey.url)
    finally:
        client.config_set("maxmemory", 0)
    assert (error.type, error.permanent) == ("STREAM_ERROR", False)
    assert "OOM" in error.message


@pytest.fixture
def user(valkey, client):
    client.acl_setuser("te", enabled=True, passwords=["+p@ss:/w%"], keys=["mine*"], commands=["+@all"])
    yield lambda password: valkey.url.replace("//", f"//te:{password}@")
    client.acl_deluser("te")


def test_credentials_of_the_url_are_used(user, client):
    send(user("p%40ss%3A%2Fw%25"), stream="mine{1}")
    assert client.xlen("mine{1}") == 1


@pytest.mark.parametrize(("password", "stream"), [("wrong", "mine{1}"), ("p%40ss%3A%2Fw%25", "other")])
def test_refused_credentials_fail_permanently(user, client, password, stream):
    error = fail(user(password), stream=stream)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", True, False)
    assert "p@ss" not in error.message


@pytest.mark.parametrize("command", ["get", "xadd", "set"])
def test_forbidden_command_fails_permanently(user, client, command):
    client.acl_setuser("te", enabled=True, commands=[f"-{command}"])
    error = fail(user("p%40ss%3A%2Fw%25"), stream="mine{1}")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", True, False)
    assert f"'{command}'" in error.message
    assert client.xlen("mine{1}") == 0


def test_refused_connection_delivers_nothing():
    error = fail("redis://127.0.0.1:1")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)
    assert "cannot connect" in error.message


def test_attempt_connects_once():
    checked = []

    class Counting(EgressGuard):
        def check_address(self, address):
            checked.append(address)
            super().check_address(address)

    fail("redis://127.0.0.1:1", guard=Counting(public_only=False, allow=[], deny=[]))
    assert checked == ["127.0.0.1"]


def test_host_name_without_an_address_is_a_retryable_error():
    error = fail("redis://nope.invalid")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2/x@h/0",
        "redis://:hunter2@h:port/0",
        "redis://:hunter2@h/zero",
        "redis://:hunter2@h/-1",
        "redis://:hunter2@h?ssl_ca_certs=/etc/passwd",
        "redis://:hunter2@h?connection_class=x",
        "redis://:hunter2@[h",
    ],
)
def test_invalid_url_fails_permanently_and_shows_no_password(url):
    raw = spec("redis://h") | {"redis_url": url}
    error = run(dispatcher(), lambda streams: failure(streams, raw))
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "hunter2" not in error.message


def test_silent_server_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts connections, no process reads
        started = time.monotonic()
        error = fail(f"redis://127.0.0.1:{listener.getsockname()[1]}/1", timeout_ms=200)
        took = time.monotonic() - started
    assert took > 0.15
    # The server did not answer the SELECT of the database, so the entry was not sent.
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)


def test_late_answer_is_not_taken_for_the_answer_to_the_next_delivery(valkey, client):
    async def main(streams):
        with LossyProxy(valkey.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}"
            await streams.send(spec(url), identity("warm"))
            proxy.delay_seconds = 0.5
            error = await failure(streams, spec(url, timeout_ms=100), identity("late"))
            return error, await streams.send(spec(url), identity("next"))

    error, output = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)
    assert client.xrange("s")[-1][0] == output["message_id"]
    assert client.xlen("s") == 3


def test_invalid_answer_is_an_error_without_nul_bytes():
    async def main(streams, answer):
        async def handle(reader, writer):
            while commands := await reader.read(65_536):
                writer.write(answer * commands.count(b"*"))
            writer.close()

        listener = await asyncio.start_server(handle, "127.0.0.1", 0)
        url = f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        error = await failure(streams, spec(url))
        listener.close()
        return error

    for answer in (b"-ERR a\0b\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-1\r\n", b":5\r\n", b"$1\r\n\xff\r\n"):
        error = run(dispatcher(), lambda streams, answer=answer: main(streams, answer))
        assert error.type in {"STREAM_ERROR", "CONNECTION_ERROR"}
        assert "\0" not in error.message


@pytest.mark.parametrize(
    ("head", "flood"), [(b"$4294967296\r\n", b"x"), (b"*4294967296\r\n", b":1\r\n"), (b"+", b"x"), (b"-ERR ", b"x")]
)
def test_endless_answer_is_rejected_early(head, flood):
    async def main(streams):
        sent = []

        async def handle(reader, writer):
            while b"EVALSHA" not in (commands := await reader.read(65_536)):
                writer.write(b"+OK\r\n" * commands.count(b"*"))
            writer.write(head)
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(flood * (65_536 // len(flood)))
                    await writer.drain()
                    sent.append(65_536)

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            return await failure(streams, spec(url, timeout_ms=20_000)), sum(sent)

    error, taken = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", False, True)
    assert taken < 16_000_000, "no more than the kernel's buffers hold"


@pytest.mark.parametrize("credentials", ["", "user:password@"])
def test_target_that_is_no_redis_server_is_named_so(credentials):
    async def main(streams):
        async def handle(reader, writer):
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://{credentials}127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            return await failure(streams, spec(url))

    error = run(dispatcher(), main)
    assert (error.type, error.permanent) == ("STREAM_ERROR", False)
    assert error.message == "the target does not answer like a Redis server: a reply of an unexpected type"
