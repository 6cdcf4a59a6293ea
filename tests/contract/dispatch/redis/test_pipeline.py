"""Deliveries that share one connection to a Redis server succeed or fail independently."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import tests.worker_environment  # noqa: F401 - first
from app.queue.executions.execution_model import DeliveryError, NotSentError
from tests.contract.dispatch.dispatching import Withdrawn, failure, identity, run
from tests.contract.dispatch.redis.deliveries import dispatcher, spec


def test_many_deliveries_share_one_connection(valkey, client):
    async def main(streams):
        await asyncio.gather(*(streams.send(spec(valkey.url), identity(f"exec_{n}")) for n in range(50)))
        return len(client.client_list())

    before = len(client.client_list())
    assert run(dispatcher(), main) == before + 1
    assert client.xlen("s") == 50


def test_deliveries_of_a_shared_connection_do_not_wait_for_each_other():
    """The server answers the first once all are sent; the limit of connections to a host is less."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = b""
        while commands.count(b"EVALSHA") < 50 and (data := await reader.read(65_536)):
            commands += data
        writer.write(b"$3\r\n1-1\r\n" * 50)
        writer.close()

    async def main(streams):
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return await asyncio.gather(*(streams.send(spec(url), identity(f"exec_{n}")) for n in range(50)))

    assert len(run(dataclasses.replace(dispatcher(), per_host=1), main)) == 50


def test_failed_delivery_does_not_affect_deliveries_on_the_same_connection(valkey, client):
    client.set("text", "is no stream")
    withdrawn = identity("withdrawn")._replace(permission=Withdrawn())

    async def main(streams):
        return await asyncio.gather(
            streams.send(spec(valkey.url), identity("first")),
            streams.send(spec(valkey.url, stream="text"), identity("wrong")),
            streams.send(spec(valkey.url), withdrawn),
            streams.send(spec(valkey.url), identity("last")),
            return_exceptions=True,
        )

    first, wrong, unsent, last = run(dispatcher(), main)
    assert isinstance(wrong, DeliveryError)
    assert isinstance(unsent, NotSentError)
    assert [message_id for message_id, _ in client.xrange("s")] == [first["message_id"], last["message_id"]]


@asynccontextmanager
async def silent_until(may_answer: asyncio.Event) -> AsyncIterator[tuple[str, list[int]]]:
    """Serve a Redis that answers with the numbers of connection and command as the id of the entry.

    The first connection answers once `may_answer` is set. Yields the URL, and the number of commands per connection.
    """
    counts: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(counts)
        counts.append(0)
        while data := await reader.read(65_536):
            for _ in range(data.count(b"EVALSHA")):
                counts[number] += 1
                if number == 0:
                    await may_answer.wait()
                writer.write(b"$3\r\n%d-%d\r\n" % (number, counts[number]))
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
        yield f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}", counts


def test_timed_out_delivery_does_not_shift_the_answers_of_later_deliveries():
    """Nothing more is sent on the connection, and the late answer is not taken for the answer of the next delivery."""

    async def main(streams):
        may_answer = asyncio.Event()
        async with silent_until(may_answer) as (url, counts):
            late = asyncio.create_task(failure(streams, spec(url, timeout_ms=300), identity("late")))
            patient = asyncio.create_task(streams.send(spec(url, timeout_ms=100_000), identity("patient")))
            error = await late
            other = await streams.send(spec(url), identity("other"))
            may_answer.set()
            return error, (await patient)["message_id"], other["message_id"], counts

    error, patient, other, counts = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", True)
    assert (patient, other) == ("0-2", "1-1")
    assert counts == [2, 1]


def test_connection_closed_after_authentication_is_not_reused():
    """The server accepts the password and closes the connection; the next delivery opens another connection."""

    async def main(streams):
        connections = 0

        async def handle(reader, writer):
            nonlocal connections
            connections += 1
            await reader.readuntil(b"PASSWORD\r\n")
            writer.write(b"+OK\r\n")
            if connections > 1:
                await reader.readuntil(b"EVALSHA")
                writer.write(b"$3\r\n1-1\r\n")
                await reader.read()
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://:PASSWORD@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            error = await failure(streams, spec(url), identity("first"))
            return error, await streams.send(spec(url), identity("second"))

    error, output = run(dispatcher(), main)
    assert error.type == "CONNECTION_ERROR"
    assert output["message_id"] == "1-1"


def test_connect_timeout_of_one_delivery_does_not_fail_another_delivery():
    """Both deliveries wait for the same connection. The server confirms the password after the first has timed out."""

    async def main(streams):
        may_answer = asyncio.Event()

        async def handle(reader, writer):
            try:
                await reader.readuntil(b"PASSWORD\r\n")
                await may_answer.wait()
                writer.write(b"+OK\r\n")
                await reader.readuntil(b"EVALSHA")  # the first connection ends without a command
                writer.write(b"$3\r\n1-1\r\n")
                await reader.read()
            finally:
                writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://:PASSWORD@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            hasty = asyncio.create_task(failure(streams, spec(url, timeout_ms=100), identity("hasty")))
            patient = asyncio.create_task(streams.send(spec(url, timeout_ms=100_000), identity("patient")))
            error = await hasty
            may_answer.set()
            output = await patient
            await streams.close()  # the server waits for the end of the connection
            return error, output

    error, output = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)
    assert output["message_id"] == "1-1"


def test_entry_of_an_unknown_script_was_not_delivered():
    """The connection is closed because of another delivery; then the server answers that the script is unknown."""

    async def main(streams):
        is_sent, may_answer = asyncio.Event(), asyncio.Event()

        async def handle(reader, writer):
            for _ in range(2):
                await reader.readuntil(b"EVALSHA")
            is_sent.set()
            await may_answer.wait()
            writer.write(b"-NOSCRIPT No matching script.\r\n" * 2)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            other = asyncio.create_task(streams.send(spec(url), identity("other")))
            patient = asyncio.create_task(failure(streams, spec(url), identity("patient")))
            await is_sent.wait()
            other.cancel()
            await asyncio.wait([other])
            may_answer.set()
            return await patient

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", False)
