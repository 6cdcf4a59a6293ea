"""Send with a time limit of its own: a timeout of the socket would bound the reads of another thread, too."""

import select
import socket
import time

WRITE_SECONDS = 30.0  # for a worker that hangs; then the connection ends, and the next connection sends the outcome


def send_within(plain: socket.socket, data: bytes, seconds: float) -> None:
    """Send all bytes, or raise TimeoutError; then a part of the bytes may be sent."""
    until, unsent, poll = time.monotonic() + seconds, memoryview(data), None
    while unsent:
        try:
            unsent = unsent[plain.send(unsent, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            if poll is None:  # most frames fit into the buffer of the socket
                poll = select.poll()
                poll.register(plain, select.POLLOUT)
            left = until - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimeoutError(f"the worker has not read {len(unsent)} bytes within {seconds} s") from None
