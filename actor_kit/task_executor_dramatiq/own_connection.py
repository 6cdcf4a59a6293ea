"""Own connection: a connection of one process, or of one thread of it."""

import os
import threading
from typing import Any


class OwnConnection:
    """The connection of this process. A forked process gets none of its parent's, since both would use one socket.

    A forked process does not close its parent's connection, because that would end the parent's session.
    """

    def __init__(self) -> None:
        self._held: Any = None
        self._process_id = 0

    def get(self) -> Any:
        """Return the connection; None if it has none."""
        return self._held if self._process_id == os.getpid() else None

    def set(self, connection: Any) -> Any:
        """Keep a connection, and return it."""
        self._held, self._process_id = connection, os.getpid()
        return connection

    def close(self) -> None:
        """Close and forget the connection."""
        connection, self._held = self.get(), None
        if connection is not None:
            connection.close()


class ThreadConnection(threading.local, OwnConnection):
    """The connection of this thread of this process."""
