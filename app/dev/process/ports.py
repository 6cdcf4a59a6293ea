"""TCP ports on the loopback address."""

import random
import socket
from contextlib import closing

# Below the kernel's range for outgoing connections, so that the port of a restarting server stays free.
_LOWEST, _HIGHEST = 20_000, 32_000
_given_out: set[int] = set()


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):  # OverflowError: not a port number
            return False
        return True


def free_port(preferred: int | None = None) -> int:
    """Choose a free port, preferably `preferred`; never the same port twice in a process."""
    if preferred is not None and preferred not in _given_out and is_free(preferred):
        _given_out.add(preferred)
        return preferred
    while True:
        port = random.randrange(_LOWEST, _HIGHEST)
        if port not in _given_out and is_free(port):
            _given_out.add(port)
            return port
