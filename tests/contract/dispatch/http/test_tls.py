"""HTTPS deliveries: trusted certificates, host names, and answers over TLS."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.http1.answer import KEPT_BYTES
from app.queue.executions.execution_model import DeliveryError
from tests.acceptance.tls import certify
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.http.deliveries import OK, Hosts, dispatcher, read_request, spec, to_hosts


class TlsServer:
    """A TLS server that sends the answers of the test.

    `names` are the host names from the TLS handshakes, `used` the number of the connection of each request.
    """

    def __init__(self, certificate: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.sni_callback = self._note
        self.names: list[str | None] = []
        self.used: list[int] = []
        self.port = 0

    def _note(self, _socket: object, name: str | None, _context: object) -> None:
        self.names.append(name)

    @asynccontextmanager
    async def serve(self, answer: Any) -> Any:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handlers.add(asyncio.current_task())
            number = len(handlers)
            try:
                while True:
                    await read_request(reader)
                    self.used.append(number)
                    await answer(writer)
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                writer.transport.abort()

        handlers: set[Any] = set()
        listener = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=self.context)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for task in handlers:
                task.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)


@pytest.fixture
def localhost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TlsServer:
    """A server with a certificate for localhost that we trust."""
    certificate = certify(tmp_path / "localhost.pem", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return TlsServer(certificate)


async def ok(writer: asyncio.StreamWriter) -> None:
    writer.write(OK)


def test_trusted_certificate_is_accepted_and_the_connection_reused(localhost: TlsServer) -> None:
    async def main(http: Dispatcher) -> Any:
        async with localhost.serve(ok):
            return [await http.send(spec(f"https://localhost:{localhost.port}/"), identity()) for _ in range(2)]

    assert run(dispatcher(), main) == [{"status_code": 200, "body": "ok"}] * 2
    assert localhost.names == ["localhost"]
    assert localhost.used == [1, 1]


def test_host_name_with_a_final_dot_matches_its_certificate(localhost: TlsServer) -> None:
    """Certificates and SNI omit the final dot."""

    async def main(http: Dispatcher) -> Any:
        async with localhost.serve(ok):
            return await http.send(spec(f"https://localhost.:{localhost.port}/"), identity())

    assert run(to_hosts(Hosts("127.0.0.1")), main)["status_code"] == 200
    assert localhost.names == ["localhost"]


def test_next_address_is_tried_after_a_failed_tls_handshake(localhost: TlsServer) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def main(http: Dispatcher) -> Any:
        async with localhost.serve(ok), await asyncio.start_server(hang_up, "127.0.0.2", localhost.port):
            return await http.send(spec(f"https://localhost:{localhost.port}/"), identity())

    assert run(to_hosts(Hosts("127.0.0.2", "127.0.0.1")), main)["status_code"] == 200


def refused(server: TlsServer, host: str) -> DeliveryError:
    async def main(http: Dispatcher) -> DeliveryError:
        async with server.serve(ok):
            return await failure(http, spec(f"https://{host}:{server.port}/"))

    return run(dispatcher(), main)


def test_certificate_for_another_name_is_refused(localhost: TlsServer) -> None:
    error = refused(localhost, "127.0.0.1")
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", False)
    assert error.message.startswith("the TLS certificate of 127.0.0.1 is not valid: IP address mismatch")
    assert localhost.used == []


def test_self_signed_certificate_is_refused(tmp_path: Path) -> None:
    server = TlsServer(certify(tmp_path / "unknown.pem", "localhost"))
    error = refused(server, "localhost")
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", False)
    assert error.message == "the TLS certificate of localhost is not valid: self-signed certificate"
    assert server.used == []


def test_endless_body_over_tls_is_truncated(localhost: TlsServer) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            await asyncio.sleep(0)  # a transport that is closing lets drain return at once

    async def main(http: Dispatcher) -> Any:
        async with localhost.serve(endless):
            return await http.send(spec(f"https://localhost:{localhost.port}/", timeout_ms=150_000), identity())

    assert run(dispatcher(), main) == {"status_code": 200, "body": "x" * KEPT_BYTES}


def test_endless_interim_answers_over_tls_are_limited(localhost: TlsServer) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        while True:
            for byte in b"HTTP/1.1 103 Early Hints\r\n\r\n":
                writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)  # a transport that is closing lets drain return at once

    async def main(http: Dispatcher) -> DeliveryError:
        async with localhost.serve(endless):
            return await failure(http, spec(f"https://localhost:{localhost.port}/", timeout_ms=150_000))

    assert "more than 16 interim answers" in run(dispatcher(), main).message


def test_long_answer_over_tls_is_complete_although_the_server_closes_the_connection(localhost: TlsServer) -> None:
    """The answer is read in later iterations of the event loop, after the server has closed the connection."""

    async def long(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 120000\r\nConnection: close\r\n\r\n" + b"x" * 120_000)
        writer.close()
        raise ConnectionResetError

    async def main(http: Dispatcher) -> Any:
        async with localhost.serve(long):
            target = spec(f"https://localhost:{localhost.port}/", timeout_ms=150_000)
            return await asyncio.gather(*(http.send(target, identity()) for _ in range(10)))

    assert run(dispatcher(), main) == [{"status_code": 200, "body": "x" * KEPT_BYTES}] * 10
