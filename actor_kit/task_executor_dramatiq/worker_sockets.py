"""Sockets of the workers on this host, and the choice of a worker."""

import random
import socket
from pathlib import Path

from dramatiq.errors import BrokerConnectionError

CONNECT_SECONDS = 5.0


class WorkerSockets:
    """Sockets of workers in a directory, or one socket; `at` is the latest, and `avoided` belongs to a stopping worker.

    Not thread-safe.
    """

    def __init__(self, address: str) -> None:
        """Take the path of the directory or socket, with or without `unix:`."""
        self.address = Path(address.removeprefix("unix:"))
        self.at: Path | None = None
        self.avoided: Path | None = None
        self._last: Path | None = None

    def connect(self) -> socket.socket:
        """Connect to any worker; raises BrokerConnectionError."""
        for path in self._paths():
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(CONNECT_SECONDS)
            try:
                connection.connect(str(path))
            except OSError:
                connection.close()
                continue
            connection.settimeout(None)
            self.at, self.avoided, self._last = path, None, None
            return connection
        raise BrokerConnectionError(
            f"no worker listens in {self.address}: start a worker of Task Executor on this host with "
            f"TE_ACTORS_LISTEN={self.address}, or give the broker the directory of its sockets, worker='unix:/…'"
        )

    def count(self) -> int:
        """Return the number of workers to try."""
        return len(self._paths())

    def try_last(self) -> None:
        """Try the latest worker last at the next connection: it has refused this process, or hangs."""
        self._last = self.at

    def avoid(self) -> None:
        """Leave out the latest worker, which stops, at the next connection."""
        self.avoided = self.at

    def _paths(self) -> list[Path]:
        """Return the sockets to try in their order; the socket of a stopping worker is left out."""
        if self.address.is_socket():
            return [self.address]
        paths = [path for path in self.address.glob("*.sock") if path != self.avoided]
        random.shuffle(paths)  # spreads the processes
        return sorted(paths, key=lambda path: (path == self._last, path != self.at))
