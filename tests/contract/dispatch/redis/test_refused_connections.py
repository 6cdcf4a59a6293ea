"""A Redis that takes no connection: it says why and hangs up, as one does that has no room for another client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.connector import Connector
from actors.dispatch.redis_stream import open_connection, read_target
from actors.dispatch.resp import RefusedError
from tests.contract.dispatch.dispatching import Opening, failure, identity, run
from tests.contract.dispatch.redis.deliveries import dispatcher, spec

NO_ROOM = b"-ERR max number of clients reached\r\n"


@asynccontextmanager
async def full() -> AsyncIterator[int]:
    """Serve a Redis that has no room for any client; yields its port."""

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(NO_ROOM)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]


@pytest.mark.parametrize("user", ["", ":password@"])
@pytest.mark.parametrize("database", ["", "/2"])
def test_a_server_without_room_is_quoted(user, database):
    async def main(streams):
        async with full() as port:
            return await failure(streams, spec(f"redis://{user}127.0.0.1:{port}{database}"))

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)
    assert "max number of clients reached" in error.message


def test_a_connection_that_is_lost_before_its_opening_ends_is_none():
    """The pool would lend it for ever: it is told of the loss once, and knows of no connection by then."""

    class Late(Connector):
        """Tells of a connection when it is lost already."""

        async def connect(self, origin, make_protocol):
            protocol = await super().connect(origin, make_protocol)
            await lost.wait()
            return protocol

        async def close(self):
            """Do nothing: the connection is closed by whoever opens it."""

    async def main(connector):
        async with full() as port:
            await open_connection(connector, read_target(f"redis://127.0.0.1:{port}"), lambda _: lost.set())

    lost = asyncio.Event()
    with pytest.raises(RefusedError, match="max number of clients"):
        run(Opening(Late), main)


def test_a_connection_that_ends_with_its_greeting_is_not_used_again():
    """The refusal comes together with the answer to the password; the next delivery connects anew."""

    async def main(streams):
        greetings = iter([b"+OK\r\n" + NO_ROOM, b"+OK\r\n"])

        async def handle(reader, writer):
            await reader.readuntil(b"PASSWORD\r\n")
            writer.write(next(greetings))
            if b"EVALSHA" in await reader.read(65_536):
                writer.write(b"$3\r\n1-1\r\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
            url = f"redis://:PASSWORD@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            error = await failure(streams, spec(url))
            output = await streams.send(spec(url), identity())
            await streams.close()  # the server waits for it
            return error, output

    error, output = run(dispatcher(), main)
    assert "max number of clients reached" in error.message
    assert output["message_id"] == "1-1"
