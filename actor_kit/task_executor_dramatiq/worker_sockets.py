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
            self.at, self.avoided = path, None
            return connection
        raise BrokerConnectionError(
            f"no worker listens in {self.address}: start a worker of Task Executor on this host with "
            f"TE_ACTORS_LISTEN={self.address}, or give the broker the directory of its sockets, worker='unix:/…'"
        )

    def choose_again(self) -> None:
        """Choose among all workers at the next connection: the latest one has refused this process."""
        self.at = None

    def avoid(self) -> None:
        """Leave out the latest worker, which stops, at the next connection."""
        self.avoided = self.at

    def _paths(self) -> list[Path]:
        """Return the sockets to try, the latest first; the socket of a stopping worker is left out."""
        if self.address.is_socket():
            return [self.address]
        paths = [path for path in self.address.glob("*.sock") if path != self.avoided]
        random.shuffle(paths)  # spreads the processes
        return sorted(paths, key=lambda path: path != self.at)
