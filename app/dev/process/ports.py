"""TCP ports on the loopback address."""

import atexit
import random
import socket
from collections import deque
from contextlib import closing

# Below the kernel's range for outgoing connections, so that the port of a restarting server stays free.
_LOWEST, _HIGHEST = 20_000, 32_000
_given_out: set[int] = set()
# A UDP socket on the same number tells other processes that a server will soon listen there.
_RESERVED_AT_ONCE = 50
_reserved: deque[socket.socket] = deque()


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
    """Choose a free port, preferably `preferred`; never the same port twice in a process.

    No other process chooses it with this function before this process chooses 50 more, or ends.
    """
    if preferred is not None and _take(preferred):
        return preferred
    while True:
        port = random.randrange(_LOWEST, _HIGHEST)
        if _take(port):
            return port


def _take(port: int) -> bool:
    if port in _given_out or not is_free(port):
        return False
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError:
        reservation.close()
        return False
    _reserved.append(reservation)
    _release(all_but=_RESERVED_AT_ONCE)
    _given_out.add(port)
    return True


@atexit.register
def _release(all_but: int = 0) -> None:
    while len(_reserved) > all_but:
        _reserved.popleft().close()
