"""A Redis that refuses connections: it sends an error and closes, as a server with `maxclients` connections does."""

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

MAX_CLIENTS = b"-ERR max number of clients reached\r\n"


@asynccontextmanager
async def full_server() -> AsyncIterator[int]:
    """Serve a Redis that refuses each client; yields its port."""

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(MAX_CLIENTS)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]


@pytest.mark.parametrize("user", ["", ":password@"])
@pytest.mark.parametrize("database", ["", "/2"])
def test_error_quotes_the_reason_of_the_refusal(user, database):
    async def main(streams):
        async with full_server() as port:
            return await failure(streams, spec(f"redis://{user}127.0.0.1:{port}{database}"))

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", False, False)
    assert "max number of clients reached" in error.message


def test_connection_lost_while_it_is_opened_raises_an_error():
    """Otherwise the pool would keep the dead connection: the only report of the loss came before the connection."""

    class Late(Connector):
        """Returns a connection once the connection is lost."""

        async def connect(self, origin, make_protocol):
            protocol = await super().connect(origin, make_protocol)
            await lost.wait()
            return protocol

        async def close(self):
            """Do nothing: `open_connection` closes the connection."""

    async def main(connector):
        async with full_server() as port:
            await open_connection(connector, read_target(f"redis://127.0.0.1:{port}"), lambda _: lost.set())

    lost = asyncio.Event()
    with pytest.raises(RefusedError, match="max number of clients"):
        run(Opening(Late), main)


def test_connection_refused_together_with_the_password_answer_is_not_reused():
    """The next delivery opens another connection."""

    async def main(streams):
        greetings = iter([b"+OK\r\n" + MAX_CLIENTS, b"+OK\r\n"])

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
            await streams.close()  # the server waits for the end of the connection
            return error, output

    error, output = run(dispatcher(), main)
    assert "max number of clients reached" in error.message
    assert output["message_id"] == "1-1"
