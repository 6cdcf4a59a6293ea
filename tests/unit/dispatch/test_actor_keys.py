"""Keys: processes on other machines, which connect by TLS and present an API key."""

import asyncio
import socket
import ssl
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from dramatiq.errors import BrokerConnectionError
from task_executor_dramatiq.frames import FrameReader
from task_executor_dramatiq.link import Links
from task_executor_dramatiq.tls_worker import TlsSocket, TlsWorker

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor import ActorDispatcher
from actors.dispatch.actor_link.frames import FrameKind, encode
from actors.dispatch.actor_link.key_gate import TlsListener, certificate
from actors.dispatch.actor_link.server import ActorServer
from app.dev.process.ports import free_port
from app.kernel.access.key_ring import Key
from app.kernel.errors import UnauthorizedError, UnavailableError
from app.queue.executions.execution_model import NotSentError
from tests.acceptance.tls import certify
from tests.contract.dispatch.dispatching import identity
from tests.contract.dispatch.dispatching import run as dispatch
from tests.unit.dispatch.actor_services import Registrations, opening, quick_registrations, service_of
from tests.waiting import eventually

HELLO = encode(FrameKind.HELLO, protocol=1, session="s", actors=[])
MIB = 1024 * 1024
T = TypeVar("T")


@dataclass
class Keys:
    """Valid keys with their scopes; each is its own id."""

    valid: dict[str, str] = field(default_factory=lambda: {"a": "actors:work", "b": "actors:work"})
    is_away: bool = False
    checks: int = 0

    def verify(self, key: str) -> Key:
        self.checks += 1
        if self.is_away:
            raise UnavailableError("no database")
        if key not in self.valid:
            raise UnauthorizedError("The API key is not valid.")
        return Key(key, key, frozenset({self.valid[key]}))


@dataclass(frozen=True)
class Place:
    """Certificate and port of a worker."""

    pem: Path
    port: int

    @property
    def url(self) -> str:
        return f"te-actors://localhost:{self.port}?ca={self.pem}"

    def context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the certificate."""
        return ssl.create_default_context(cafile=self.pem)

    def connect(self, key: str = "a") -> TlsSocket:
        return TlsWorker(self.url, key).connect()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(certify(tmp_path / "worker.pem", "localhost"), free_port())


@asynccontextmanager
async def listening(
    place: Place, sockets: Path, keys: Keys, registrations: Registrations | None = None, **bounds: Any
) -> AsyncIterator[ActorServer]:
    listener = TlsListener("127.0.0.1", place.port, certificate(place.pem, place.pem), keys.verify, **bounds)
    service = service_of(sockets, registrations or quick_registrations())
    server = ActorServer(replace(service, tls=listener))
    await server.open()
    try:
        yield server
    finally:
        await server.close()


def run_on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    """Run on the kind of loop that workers have: others pause and begin to read at other moments."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def run(
    place: Place, sockets: Path, client: Callable[[ActorServer], Any], keys: Keys | None = None, **bounds: Any
) -> Any:
    """Run a client, which blocks, on a thread beside a server; `bounds` are fields of TlsListener."""

    async def main() -> Any:
        async with listening(place, sockets, keys or Keys(), **bounds) as server:
            return await asyncio.to_thread(client, server)

    return run_on_uvloop(main())


def answer_to(connection: TlsSocket, *frames: bytes) -> dict[str, Any]:
    """Send frames and return the first frame of the answer."""
    connection.sendall(b"".join(frames))
    return next(FrameReader().feed(connection.recv(65_536)))


def is_closed(connection: TlsSocket) -> bool:
    try:
        while connection.recv(65_536):
            pass
    except OSError:
        pass
    return True


def test_process_with_a_key_is_welcome(place: Place, sockets: Path) -> None:
    def client(server: ActorServer) -> None:
        links = Links(place.url, list, "a")
        links.open()
        (session,) = server.sessions.values()
        assert session.peer.key_id == "a"
        links.close()
        eventually(lambda: not server.sessions)

    run(place, sockets, client)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([encode(FrameKind.KEY, key="stolen"), HELLO], "The API key is not valid."),
        ([encode(FrameKind.KEY), HELLO], "The API key is not valid."),
        ([HELLO], "the first frame is KEY"),
        ([encode(FrameKind.KEY, key="a" * 2000)], "at most 1024 are allowed"),
    ],
)
def test_connection_without_a_valid_key_is_refused(
    place: Place, sockets: Path, frames: list[bytes], reason: str
) -> None:
    def client(server: ActorServer) -> None:
        plain = socket.create_connection(("127.0.0.1", place.port))
        with plain:
            connection = TlsSocket(plain, place.context(), "localhost")
            answer = answer_to(connection, *frames)
            assert answer["kind"] == FrameKind.REFUSED
            assert reason in answer["reason"]
            assert is_closed(connection)
        assert not server.sessions

    run(place, sockets, client)


def test_key_that_cannot_be_checked_is_not_refused(place: Place, sockets: Path) -> None:
    def client(_: ActorServer) -> None:
        with closing(place.connect()) as connection:
            connection.sendall(HELLO)
            assert connection.recv(65_536) == b""

    run(place, sockets, client, Keys(is_away=True))


def test_connection_without_a_key_is_closed_in_time(place: Place, sockets: Path) -> None:
    def client(_: ActorServer) -> None:
        with socket.create_connection(("127.0.0.1", place.port)) as plain:
            assert is_closed(TlsSocket(plain, place.context(), "localhost"))

    run(place, sockets, client, key_seconds=0.1)


def test_handshake_that_begins_before_the_accept_is_read(place: Place, sockets: Path) -> None:
    async def main() -> dict[str, Any]:
        async with listening(place, sockets, Keys()):
            plain = socket.create_connection(("127.0.0.1", place.port))
            plain.setblocking(False)
            with place.context().wrap_socket(
                plain, server_hostname="localhost", do_handshake_on_connect=False
            ) as early:
                with pytest.raises(ssl.SSLWantReadError):
                    early.do_handshake()
                early.settimeout(10)
                await asyncio.to_thread(early.do_handshake)
                early.sendall(encode(FrameKind.KEY, key="a") + HELLO)
                return next(FrameReader().feed(await asyncio.to_thread(early.recv, 65_536)))

    assert run_on_uvloop(main())["kind"] == FrameKind.WELCOME


def test_connections_without_a_key_are_few(place: Place, sockets: Path) -> None:
    """Also those that begin no handshake; each that ends or brings its key makes room for another."""

    def client(_: ActorServer) -> None:
        silent = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(2)]
        with silent[0], silent[1]:
            with socket.create_connection(("127.0.0.1", place.port), timeout=10) as third:
                assert third.recv(1) == b""
            silent[0].close()
            eventually(lambda: is_welcome(place))
            assert is_welcome(place)

    run(place, sockets, client, most_without_key=2)


def is_welcome(place: Place) -> bool:
    try:
        with closing(place.connect()) as connection:
            return answer_to(connection, HELLO)["kind"] == FrameKind.WELCOME
    except (BrokerConnectionError, OSError):
        return False


def test_revoked_key_ends_its_connections(place: Place, sockets: Path) -> None:
    keys = Keys()

    def client(_: ActorServer) -> None:
        with closing(place.connect()) as connection:
            assert answer_to(connection, HELLO)["kind"] == FrameKind.WELCOME
            keys.is_away, seen = True, keys.checks
            eventually(lambda: keys.checks > seen + 1)  # a database that does not answer ends no connection
            keys.valid.clear()
            keys.is_away = False
            assert next(FrameReader().feed(connection.recv(65_536)))["kind"] == FrameKind.REFUSED
            assert is_closed(connection)

    run(place, sockets, client, keys, recheck_seconds=0.01)


def test_actor_that_leaves_the_queues_of_a_key_is_refused_at_the_recheck(place: Place, sockets: Path) -> None:
    """And offered again once it is back, or the key has more scopes; each time with one registration."""
    keys, registrations = Keys({"a": "actors:work:own"}), quick_registrations()
    hello = encode(FrameKind.HELLO, protocol=1, session="s", actors=[{"name": "mail"}, {"name": "pay"}])

    def client(connection: TlsSocket) -> None:
        with closing(connection):
            connection.sendall(hello)
            frames = welcomes(connection)
            assert next(frames) == {"mail", "pay"}
            registrations.closed_actors = {"pay"}
            assert next(frames) == {"mail"}
            registrations.closed_actors = set()
            assert next(frames) == {"mail", "pay"}
            keys.valid["a"] = "actors:work"
            assert next(frames) == {"mail", "pay"}
            seen = keys.checks
            eventually(lambda: keys.checks > seen + 2)
            connection.sendall(encode(FrameKind.HELLO, protocol=1, session="s", actors=[{"name": "mail"}]))
            assert next(frames) == {"mail"}

    async def main() -> None:
        async with listening(place, sockets, keys, registrations, recheck_seconds=0.01):
            await asyncio.to_thread(lambda: client(place.connect()))

    run_on_uvloop(main())


@pytest.mark.parametrize(("scope", "costs_queries"), [("actors:work", False), ("actors:work:own", True)])
def test_recheck_of_a_key_of_all_queues_asks_for_no_closed_actors(
    place: Place, sockets: Path, scope: str, costs_queries: bool
) -> None:
    keys, registrations = Keys({"a": scope}), quick_registrations()

    def client(connection: TlsSocket) -> None:
        with closing(connection):
            assert answer_to(connection, HELLO)["kind"] == FrameKind.WELCOME
            seen = keys.checks
            eventually(lambda: keys.checks > seen + 3)

    async def main() -> None:
        async with listening(place, sockets, keys, registrations, recheck_seconds=0.01):
            await asyncio.to_thread(lambda: client(place.connect()))

    run_on_uvloop(main())
    assert (registrations.queries > 0) == costs_queries


def welcomes(connection: TlsSocket) -> Iterator[set[str]]:
    """Yield the endpoints of each WELCOME."""
    connection._plain.settimeout(20)  # noqa: SLF001 - else a missing frame would hang the test
    reader = FrameReader()
    while data := connection.recv(65_536):
        for frame in reader.feed(data):
            assert frame["kind"] == FrameKind.WELCOME
            yield {*frame["endpoints"]}


def test_session_of_another_key_cannot_be_taken_over(place: Place, sockets: Path) -> None:
    def client(_: ActorServer) -> None:
        with closing(place.connect("a")) as mine, closing(place.connect("b")) as other:
            assert answer_to(mine, HELLO)["kind"] == FrameKind.WELCOME
            answer = answer_to(other, HELLO)
            assert answer["kind"] == FrameKind.REFUSED
            assert "another user or key" in answer["reason"]

    run(place, sockets, client)


def test_stopping_worker_gives_its_address_up_and_keeps_its_connections(place: Place, sockets: Path) -> None:
    async def main() -> None:
        async with listening(place, sockets, Keys()) as server:
            connection = await asyncio.to_thread(place.connect)
            welcome = await asyncio.to_thread(answer_to, connection, HELLO)
            assert welcome["kind"] == FrameKind.WELCOME
            server.drain()
            drained = next(FrameReader().feed(await asyncio.to_thread(connection.recv, 65_536)))
            assert drained["kind"] == FrameKind.DRAIN
            with pytest.raises(BrokerConnectionError, match="TE_ACTORS_TLS_ADDR"):
                await asyncio.to_thread(place.connect)
            async with listening(place, sockets, Keys()):
                (await asyncio.to_thread(place.connect)).close()
            connection.close()

    run_on_uvloop(main())


def test_worker_with_the_certificate_of_another_host_is_refused(place: Place, sockets: Path, tmp_path: Path) -> None:
    other = Place(certify(tmp_path / "other.pem", "localhost"), place.port)

    def client(_: ActorServer) -> None:
        with pytest.raises(BrokerConnectionError, match="certificate verify failed"):
            other.connect()

    run(place, sockets, client)


def test_one_thread_reads_while_another_writes(place: Place) -> None:
    """The peer sends back all bytes, so both directions are full at once."""
    context = certificate(place.pem, place.pem)
    sent = bytes(range(256)) * (8 * MIB // 256)

    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65_536):
                writer.write(data)
            writer.close()

        async with await asyncio.start_server(echo, "127.0.0.1", place.port, ssl=context):
            return await asyncio.to_thread(echoed)

    def echoed() -> bytes:
        with socket.create_connection(("127.0.0.1", place.port)) as plain:
            connection = TlsSocket(plain, place.context(), "localhost")
            writing = threading.Thread(target=connection.sendall, args=[sent])
            writing.start()
            got = bytearray()
            while len(got) < len(sent) and (data := connection.recv(65_536)):
                got += data
            writing.join()
        return bytes(got)

    assert run_on_uvloop(main()) == sent


@pytest.mark.parametrize("url", ["te-actors://", "te-actors://host/path", "te-actors://host?key=x"])
def test_address_is_checked_before_a_connection(url: str) -> None:
    with pytest.raises(ValueError, match="te-actors://HOST:PORT"):
        TlsWorker(url, "a")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("te-actors://te_secret@host:7420", "use te-actors://host:7420, and give the key as `key`"),
        ("te-actors://user:te_secret@host", "use te-actors://host, and give the key as `key`"),
        ("te-actors://host?key=te_secret", "te-actors://host lacks a host, or has more"),
        ("te-actors://host:1/te_secret", "te-actors://host:1 lacks a host, or has more"),
        ("te-actors://host:te_secret", "the port of the worker host is no number"),
    ],
)
def test_error_about_an_address_repeats_no_key_in_it(url: str, told: str) -> None:
    with pytest.raises(ValueError, match="worker") as refused:
        TlsWorker(url, None)
    assert told in str(refused.value)
    assert "secret" not in "".join(traceback.format_exception(refused.value, limit=0))


def test_process_sends_an_outcome_without_waiting_for_an_acknowledgement(place: Place, sockets: Path) -> None:
    def client(server: ActorServer) -> None:
        with closing(place.connect()) as connection:
            assert answer_to(connection, HELLO)["kind"] == FrameKind.WELCOME
            plain = connection._plain  # noqa: SLF001 - an option of the socket, which no other call shows
            assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        eventually(lambda: not server.sessions)

    run(place, sockets, client)


def test_worker_elsewhere_needs_a_key() -> None:
    with pytest.raises(ValueError, match="actors:work"):
        Links("te-actors://host", list)


def test_message_of_a_queue_that_no_key_opens_rests(place: Place, sockets: Path) -> None:
    """Another process may have moved the actor since; the message would be claimed again at each moment."""
    tls = TlsListener("127.0.0.1", place.port, certificate(place.pem, place.pem), Keys({"a": "actors:work:own"}).verify)
    service = replace(service_of(sockets, quick_registrations()), tls=tls)
    spec = {"actor": "mail", "queue": "other", "arguments": {}, "timeout_ms": 30_000, "max_lost": 3}
    hello = encode(FrameKind.HELLO, protocol=1, session="s", actors=[{"name": "mail", "queue": "own"}])

    def connected() -> TlsSocket | None:
        with suppress(BrokerConnectionError):
            return place.connect()
        return None

    async def main(dispatcher: ActorDispatcher) -> None:
        with closing(await asyncio.to_thread(eventually, connected)) as connection:
            frames = hello, encode(FrameKind.ROOM, queue="own", places=1)
            assert (await asyncio.to_thread(answer_to, connection, *frames))["kind"] == FrameKind.WELCOME
            with pytest.raises(NotSentError, match="no API key of the processes") as waiting:
                await dispatcher.send(spec, identity())
        assert (waiting.value.defer_ms, waiting.value.is_noted) == (30_000, True)

    dispatch(opening(service), main)
