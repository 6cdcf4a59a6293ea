"""Worker on another machine: its address, and a connection to it by TLS."""

import socket
import ssl
import threading
from urllib.parse import SplitResult, parse_qs, urlsplit

from dramatiq.errors import BrokerConnectionError

from task_executor_dramatiq.frames import encode
from task_executor_dramatiq.timed_send import WRITE_SECONDS, send_within

SCHEME = "te-actors://"
DEFAULT_PORT = 7420
CONNECT_SECONDS = 5.0
READ_BYTES = 65_536
# A machine that is gone closes no connection; these probes find it as soon as a lease would run out.
_PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}


class TlsSocket:
    """Connection by TLS that one thread reads while other threads write, unlike a socket of OpenSSL."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Shake hands; raises OSError."""
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()  # of all but the reads of `plain`
        while not self._has_shaken_hands():
            if not self._receive():
                raise ConnectionError("the worker closed the connection")

    def _has_shaken_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()
        return True

    def recv(self, most_bytes: int) -> bytes:
        """Wait for bytes; returns none at the end. For one thread."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(most_bytes)
                except ssl.SSLWantReadError:
                    self._flush()  # an answer of TLS itself
                except ssl.SSLZeroReturnError:
                    return b""
            if not self._receive():
                return b""

    def sendall(self, data: bytes, seconds: float = WRITE_SECONDS) -> None:
        """Send bytes, from any thread; raises TimeoutError."""
        with self._lock:
            self._tls.write(data)
            self._flush(seconds)

    def shutdown(self, how: int) -> None:
        """End the read of another thread."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self._plain.close()

    def _receive(self) -> bool:
        data = self._plain.recv(READ_BYTES)
        with self._lock:
            self._incoming.write(data)
        return bool(data)

    def _flush(self, seconds: float = WRITE_SECONDS) -> None:
        if data := self._outgoing.read():
            send_within(self._plain, data, seconds)


class TlsWorker:
    """Address of one worker, or of several behind a load balancer; `at` is its text. Not thread-safe."""

    def __init__(self, url: str, key: str | None) -> None:
        """Take `te-actors://HOST:PORT?ca=FILE`; raises ValueError for another URL, or without a key.

        Without `ca`, a file in PEM format, the authorities of the system are trusted.
        """
        parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
        place = _place_of(parts)
        if "@" in parts.netloc:
            raise ValueError(f"the address of a worker has no key: use {SCHEME}{place}, and give the key as `key`")
        if not parts.hostname or query.keys() - {"ca"} or parts.path:
            raise ValueError(
                f"the address of a worker is {SCHEME}HOST:PORT, or {SCHEME}HOST:PORT?ca=FILE, and its key is `key`; "
                f"{SCHEME}{place} lacks a host, or has more than that"
            )
        if not key:
            raise ValueError(f"a worker at {SCHEME} needs `key`, an API key with the scope actors:work")
        self.at = f"{parts.hostname}:{parts.port or DEFAULT_PORT}"
        self.avoided: str | None = None
        self._place = parts.hostname, parts.port or DEFAULT_PORT
        self._key = key
        self._context = ssl.create_default_context(cafile=query["ca"][0] if "ca" in query else None)

    def connect(self) -> TlsSocket:
        """Connect and present the key; raises BrokerConnectionError."""
        plain = None
        try:
            plain = socket.create_connection(self._place, CONNECT_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an outcome waits for no acknowledgement
            connection = TlsSocket(plain, self._context, self._place[0])
            connection.sendall(encode("KEY", key=self._key))
        except OSError as error:
            if plain is not None:
                plain.close()
            raise BrokerConnectionError(
                f"cannot connect to a worker at {self.at}: {error}; start one with TE_ACTORS_TLS_ADDR"
            ) from error
        plain.settimeout(None)
        _find_lost_machines(plain)
        self.avoided = None
        return connection

    def count(self) -> int:
        """Return the number of workers to try."""
        return 1

    def try_last(self) -> None:
        """Do nothing: there is no other address."""

    def avoid(self) -> None:
        """Note that the worker stops, and so no longer listens; another worker may have the address."""
        self.avoided = self.at


def _place_of(parts: SplitResult) -> str:
    """Return the host and the port, if it is a number; errors repeat no more of an address, since it may hold a key."""
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of the worker {parts.hostname} is no number from 0 to 65535") from None
    return f"{parts.hostname or ''}{f':{port}' if port else ''}"


def _find_lost_machines(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
