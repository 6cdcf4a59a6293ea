"""Redis Stream deliveries to a real server: the appended entries, and the connections."""

import asyncio
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from actors.dispatch.redis_stream import RedisStreamDispatcher
from tests.contract.dispatch.dispatching import TRACEPARENT, Opening, failure, identity, run
from tests.contract.dispatch.redis.deliveries import dispatcher, fail, send, spec
from tests.waiting import HUNG_SECONDS


def test_entry_has_the_configured_fields_and_nothing_else(valkey, client):
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


def test_metadata_fields_are_added_if_configured(valkey, client):
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


def test_database_of_the_url_is_used(valkey, client):
    send(valkey.url.replace("/0", "/3"))
    assert not client.exists("s")
    with redis.Redis.from_url(valkey.url.replace("/0", "/3")) as third:
        assert third.xlen("s") == 1


@pytest.mark.parametrize(("approximate", "exact"), [(False, True), (True, False)])
def test_stream_is_trimmed_exactly_or_approximately(valkey, client, approximate, exact):
    async def main(streams):
        for number in range(250):
            limits = {"max_len": 10, "approximate_trimming": approximate}
            await streams.send(spec(valkey.url, **limits), identity(f"exec_{number}"))

    run(dispatcher(), main)
    assert (client.xlen("s") == 10) is exact
    assert 10 <= client.xlen("s") < 250


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_egress_guard_checks_every_connection(valkey, client, host):
    guard = EgressGuard.from_settings("public-only", [], [])
    error = fail(f"redis://{host}:{valkey.port}", guard=guard)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "egress" in error.message
    assert not client.exists("s")


def test_tls_verifies_the_host_name_of_the_url(tmp_path):
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


def test_idle_connections_are_closed(valkey, client):
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


def test_connection_is_replaced_beyond_its_maximum_age(valkey, client):
    async def main(streams):
        before, seen = len(client.client_list()), set()
        for number in range(3):
            await streams.send(spec(valkey.url), identity(str(number)))
            seen |= {int(each["id"]) for each in client.client_list()}
        await asyncio.to_thread(until, lambda: len(client.client_list()) <= before + 1)
        return seen

    replaced = Opening(RedisStreamDispatcher, max_age_seconds=0.0)
    ordinary = len(run(dispatcher(), main))
    assert len(run(replaced, main)) == ordinary + 2
    assert client.xlen("s") == 3


def until(condition):
    deadline = time.monotonic() + HUNG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
