"""A repeated delivery to a Redis Stream appends nothing until the marker of the delivery expires."""

import asyncio
import time

from redis.crc import key_slot

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import History
from actors.dispatch.redis_stream import MARKER_SLACK_SECONDS, marker_key
from app.kernel import ids
from tests.cases import each_case
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.lossy import LossyProxy
from tests.contract.dispatch.redis.deliveries import dispatcher, fail, send, spec


def test_retry_appends_nothing_and_returns_the_first_id(valkey, client):
    first = send(valkey.url, identity(attempt=1))
    client.script_flush()
    assert send(valkey.url, identity(attempt=2), fields_template={"other": "fields"}) == first
    assert client.xlen("s") == 1
    assert send(valkey.url, identity("exec_2")) != first
    assert client.xlen("s") == 2


def test_lost_answer_is_in_doubt_and_its_retry_appends_nothing(valkey, client):
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


def test_fifty_concurrent_attempts_append_one_entry(valkey, client):
    async def main(streams):
        return await asyncio.gather(*(streams.send(spec(valkey.url), identity(attempt=n)) for n in range(50)))

    outputs = run(dispatcher(), main)
    assert client.xlen("s") == 1
    assert len({output["message_id"] for output in outputs}) == 1


def with_history(delivery=None, **history):
    return (delivery or identity())._replace(history=History(**history))


def test_marker_is_small_and_expires_after_the_longest_wait(valkey, client):
    send(valkey.url, with_history(identity(ids.execution_id()), longest_wait_seconds=60.0), stream="s" * 20)
    (marker,) = set(client.keys()) - {"s" * 20}
    assert MARKER_SLACK_SECONDS < client.ttl(marker) <= MARKER_SLACK_SECONDS + 60
    assert client.memory_usage(marker) <= 200


def test_output_reports_a_possible_duplicate_once_the_marker_may_have_expired(valkey, client):
    """An existing marker proves a delivery. A missing marker that cannot have expired proves that nothing was sent."""
    now = time.monotonic()
    old = {"longest_wait_seconds": 60.0, "uncertain_since": now - MARKER_SLACK_SECONDS - 60}
    recent = {"longest_wait_seconds": 3600.0, "uncertain_since": now - MARKER_SLACK_SECONDS - 60}
    assert send(valkey.url, with_history(identity("exec_old", attempt=2), **old))["may_be_duplicate"] is True
    assert "may_be_duplicate" not in send(valkey.url, with_history(identity("exec_old", attempt=3), **old))
    assert "may_be_duplicate" not in send(valkey.url, with_history(identity("exec_recent", attempt=2), **recent))
    assert "may_be_duplicate" not in send(valkey.url, with_history(identity("exec_first")))
    assert client.xlen("s") == 3


@each_case("stream", ["s", "notifications:outbound", "a{b}c", "{a}", "a{", "a{{b}}", "{a{b}", "x{y}{z}"])
def test_marker_key_is_in_the_cluster_slot_of_the_stream(stream):
    assert key_slot(marker_key(stream, "exec_1").encode()) == key_slot(stream.encode())
    assert marker_key(stream, "exec_1") != marker_key(stream, "exec_2")


def test_failed_append_leaves_no_marker(valkey, client):
    client.set("s", "a string")
    fail(valkey.url)
    client.delete("s")
    assert client.keys() == []
    send(valkey.url)
    assert client.xlen("s") == 1
