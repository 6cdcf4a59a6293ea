"""Redis Stream deliveries to a real server, and through a network that loses answers."""

import asyncio
import contextlib
import dataclasses
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from redis.crc import key_slot

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import History
from actors.dispatch.egress import EgressGuard
from actors.dispatch.redis_stream import NOTE_SLACK_SECONDS, RedisStreamDispatcher, note_key
from app import ids
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, TRACEPARENT, Opening, failure, identity, rendered, run
from tests.contract.dispatch.lossy import LossyProxy
from tests.waiting import HUNG_SECONDS


@pytest.fixture
def client(valkey):
    client = redis.Redis.from_url(valkey.url, decode_responses=True)
    yield client
    client.flushall()
    client.close()


def dispatcher(guard=OPEN, size=10):
    return Opening(RedisStreamDispatcher, guard, per_host=size)


def spec(url, **fields):
    return rendered(
        EndpointType.REDIS_STREAM, {"redis_url": url, "stream": "s", "fields_template": {"a": "1"}, **fields}
    )


def send(url, who=None, **fields):
    return run(dispatcher(), lambda streams: streams.send(spec(url, **fields), who or identity()))


def fail(url, *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda streams: failure(streams, spec(url, **fields)))


# what is appended


def test_an_entry_has_the_users_fields_and_nothing_else(valkey, client):
    values = {"text": "é\n\0", "n": 1, "f": 1.5, "t": True, "z": None, "o": {"k": "é"}, "l": [1, "x"], "": ""}
    output = send(valkey.url, fields_template=values)
    ((message_id, entry),) = client.xrange("s")
    assert output == {"message_id": message_id, "stream": "s"}
    assert entry == {
        "text": "é\n\0",
        "n": "1",
        "f": "1.5",
        "t": "true",
        "z": "null",
        "o": '{"k":"é"}',
        "l": '[1,"x"]',
        "": "",
    }


def test_metadata_is_added_where_it_is_asked_for(valkey, client):
    send(valkey.url, identity("exec_1", attempt=2), fields_template={"a": "1", "te": "2"}, metadata=True)
    ((_, entry),) = client.xrange("s")
    assert entry == {
        "a": "1",
        "te": "2",
        "te-idempotency-key": "exec_1",
        "te-job-id": "job_1",
        "te-execution-id": "exec_1",
        "te-attempt": "2",
        "te-scheduled-at": "2026-03-15T10:00:00.123Z",
        "traceparent": TRACEPARENT,
    }


def test_the_database_of_the_url_is_used(valkey, client):
    send(valkey.url.replace("/0", "/3"))
    assert not client.exists("s")
    with redis.Redis.from_url(valkey.url.replace("/0", "/3")) as third:
        assert third.xlen("s") == 1


@pytest.mark.parametrize(("approximate", "exact"), [(False, True), (True, False)])
def test_trimming(valkey, client, approximate, exact):
    async def main(streams):
        for number in range(250):
            limits = {"max_len": 10, "approximate_trimming": approximate}
            await streams.send(spec(valkey.url, **limits), identity(f"exec_{number}"))

    run(dispatcher(), main)
    assert (client.xlen("s") == 10) is exact
    assert 10 <= client.xlen("s") < 250


# once


def test_a_retry_appends_nothing_and_returns_the_first_id(valkey, client):
    first = send(valkey.url, identity(attempt=1))
    client.script_flush()
    assert send(valkey.url, identity(attempt=2), fields_template={"other": "fields"}) == first
    assert client.xlen("s") == 1
    assert send(valkey.url, identity("exec_2")) != first
    assert client.xlen("s") == 2


def test_a_lost_answer_is_unknown_and_its_retry_appends_nothing(valkey, client):
    async def main(streams):
        with LossyProxy(valkey.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}"
            await streams.send(spec(url), identity("warm"))
            proxy.loses = True
            error = await failure(streams, spec(url), identity("lost"))
            proxy.loses = False
            return error, await streams.send(spec(url), identity("lost", attempt=2))

    error, output = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", True, False)
    assert [message_id for message_id, _ in client.xrange("s")][1:] == [output["message_id"]]


def test_fifty_at_once_append_one_entry(valkey, client):
    async def main(streams):
        return await asyncio.gather(*(streams.send(spec(valkey.url), identity(attempt=n)) for n in range(50)))

    outputs = run(dispatcher(), main)
    assert client.xlen("s") == 1
    assert len({output["message_id"] for output in outputs}) == 1


def remembering(who=None, **history):
    return dataclasses.replace(who or identity(), history=History(**history))


def test_the_note_of_a_delivery_is_small_and_outlives_the_longest_wait_only(valkey, client):
    send(valkey.url, remembering(identity(ids.execution_id()), longest_wait_seconds=60.0), stream="s" * 20)
    (note,) = set(client.keys()) - {"s" * 20}
    assert NOTE_SLACK_SECONDS < client.ttl(note) <= NOTE_SLACK_SECONDS + 60
    assert client.memory_usage(note) <= 200


def test_an_entry_whose_note_may_have_expired_is_marked(valkey, client):
    """Only then: what is found is no duplicate, and a note that cannot have expired says that nothing was appended."""
    now = time.monotonic()
    old = {"longest_wait_seconds": 60.0, "uncertain_since": now - NOTE_SLACK_SECONDS - 60}
    recent = {"longest_wait_seconds": 3600.0, "uncertain_since": now - NOTE_SLACK_SECONDS - 60}
    assert send(valkey.url, remembering(identity("exec_old", attempt=2), **old))["may_be_duplicate"] is True
    assert "may_be_duplicate" not in send(valkey.url, remembering(identity("exec_old", attempt=3), **old))
    assert "may_be_duplicate" not in send(valkey.url, remembering(identity("exec_recent", attempt=2), **recent))
    assert "may_be_duplicate" not in send(valkey.url, remembering(identity("exec_first")))
    assert client.xlen("s") == 3


@pytest.mark.parametrize("stream", ["s", "notifications:outbound", "a{b}c", "{a}", "a{", "a{{b}}", "{a{b}", "x{y}{z}"])
def test_the_note_lies_in_the_slot_of_the_stream(stream):
    assert key_slot(note_key(stream, "exec_1").encode()) == key_slot(stream.encode())
    assert note_key(stream, "exec_1") != note_key(stream, "exec_2")


def test_a_failed_append_leaves_no_note(valkey, client):
    client.set("s", "a string")
    fail(valkey.url)
    client.delete("s")
    assert client.keys() == []
    send(valkey.url)
    assert client.xlen("s") == 1


# what goes wrong


def test_a_key_of_another_type_fails_for_good(valkey, client):
    client.set("s", "a string")
    error = fail(valkey.url)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", True, False)
    assert "WRONGTYPE" in error.message
    assert "WRONGTYPE" not in error.own_message


def test_an_answer_that_may_change_is_retried(valkey, client):
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


def test_credentials_of_the_url(user, client):
    send(user("p%40ss%3A%2Fw%25"), stream="mine{1}")
    assert client.xlen("mine{1}") == 1


@pytest.mark.parametrize(("password", "stream"), [("wrong", "mine{1}"), ("p%40ss%3A%2Fw%25", "other")])
def test_refused_credentials_fail_for_good(user, client, password, stream):
    error = fail(user(password), stream=stream)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("STREAM_ERROR", True, False)
    assert "p@ss" not in error.message


def test_a_refused_connection_appended_nothing():
    error = fail("redis://127.0.0.1:1")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)
    assert "cannot connect" in error.message


def test_one_attempt_connects_once():
    """redis-py tries again by itself unless it is told not to."""
    checked = []

    class Counting(EgressGuard):
        def check_address(self, address):
            checked.append(address)
            super().check_address(address)

    fail("redis://127.0.0.1:1", guard=Counting(public_only=False, allow=[], deny=[]))
    assert checked == ["127.0.0.1"]


def test_a_name_without_address():
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
def test_a_url_that_cannot_be_used(url):
    raw = spec("redis://h") | {"redis_url": url}
    error = run(dispatcher(), lambda streams: failure(streams, raw))
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "hunter2" not in error.message


def test_a_silent_server_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the system accepts, nobody reads
        started = time.monotonic()
        error = fail(f"redis://127.0.0.1:{listener.getsockname()[1]}/1", timeout_ms=200)
        took = time.monotonic() - started
    assert took > 0.15
    # Not even the choice of the database was answered, so the entry was not sent.
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)


def test_an_answer_that_comes_too_late_is_not_given_to_the_next_delivery(valkey, client):
    async def main(streams):
        with LossyProxy(valkey.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}"
            await streams.send(spec(url), identity("warm"))
            proxy.delay_seconds = 0.5
            error = await failure(streams, spec(url, timeout_ms=100), identity("late"))
            return error, await streams.send(spec(url), identity("next"))

    error, output = run(dispatcher(size=1), main)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)
    assert client.xrange("s")[-1][0] == output["message_id"]
    assert client.xlen("s") == 3


def test_waiting_for_a_connection_does_not_count_against_the_timeout(valkey, client):
    """One connection and three deliveries: together they take longer than the timeout of each."""

    async def main(streams):
        with LossyProxy(valkey.port) as proxy:
            slow = spec(f"redis://127.0.0.1:{proxy.port}", timeout_ms=2000)
            await streams.send(slow, identity("warm"))
            proxy.delay_seconds = 0.8
            await asyncio.gather(*(streams.send(slow, identity(f"exec_{n}")) for n in range(3)))

    run(dispatcher(size=1), main)
    assert client.xlen("s") == 4


def test_a_server_of_another_kind():
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
def test_an_answer_without_end_is_not_kept(head, flood):
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
    assert taken < 16_000_000, "no more than what the system's buffers hold"


# where it goes


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_the_guard_stands_before_every_connection(valkey, client, host):
    guard = EgressGuard.from_settings("public-only", [], [])
    error = fail(f"redis://{host}:{valkey.port}", guard=guard)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "egress" in error.message
    assert not client.exists("s")


def test_tls_is_for_the_name_although_the_address_is_connected_to(tmp_path):
    names = []

    async def main(streams):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed(tmp_path))
        context.sni_callback = lambda _socket, name, _context: names.append(name)
        listener = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
        error = await failure(streams, spec(f"rediss://localhost:{listener.sockets[0].getsockname()[1]}"))
        listener.close()
        return error

    error = run(dispatcher(), main)
    assert names == ["localhost"]
    assert error.type == "CONNECTION_ERROR"
    assert "certificate" in error.message.lower()


def self_signed(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    path = directory / "server.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_pools_that_are_not_used_are_closed(valkey, client):
    async def main(streams):
        before = len(client.client_list())
        await streams.send(spec(valkey.url), identity())
        await streams.sweep()
        kept = len(client.client_list()) - before
        await streams.sweep(idle_seconds=0)
        await asyncio.to_thread(until, lambda: len(client.client_list()) == before)
        await streams.send(spec(valkey.url), identity("again"))
        return kept

    assert run(dispatcher(), main) == 1
    assert client.xlen("s") == 2


def until(condition):
    deadline = time.monotonic() + HUNG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
