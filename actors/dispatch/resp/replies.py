"""Replies of a Redis server, read from bytes (RESP2), and the bytes of commands; no I/O."""

from collections.abc import Iterator, Sequence

LONGEST_REPLY = 65_536  # a reply to one of our commands has 64 bytes at most, or the text of an error
_END = b"\r\n"


_PASSING = ("LOADING", "ERR max number of clients")


class RefusedError(Exception):
    """The server answered a command with an error: it changed nothing."""

    @property
    def is_passing(self) -> bool:
        """Return whether it answers nobody at the moment."""
        return str(self).startswith(_PASSING)


class UnreadableError(Exception):
    """What came is no reply that one of our commands can have."""


def write_command(arguments: Sequence[str]) -> bytes:
    """Write one command."""
    parts = "".join([f"${_size(part)}\r\n{part}\r\n" for part in arguments])
    return f"*{len(arguments)}\r\n{parts}".encode(errors="replace")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class ReplyReader:
    """Cuts replies out of pieces of any size."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> Iterator[bytes | RefusedError]:
        """Return the replies that are complete by now; raises UnreadableError."""
        unread = self._unread + data if self._unread else data
        place = 0
        while place < len(unread):
            end = unread.find(_END, place, place + LONGEST_REPLY)
            if end < 0:
                break
            kind, line = unread[place : place + 1], unread[place + 1 : end]
            place_after = end + len(_END)
            if kind == b"$":
                length = _length(line)
                place_after += length + len(_END)
                if len(unread) < place_after:
                    break
                line = unread[end + len(_END) : place_after - len(_END)]
            elif kind not in b"+-:":
                raise UnreadableError("a reply of another kind")
            place = place_after
            yield RefusedError(line.decode(errors="replace")) if kind == b"-" else line
        self._unread = unread[place:]
        if len(self._unread) > LONGEST_REPLY + 32:
            raise UnreadableError("a reply without end")


def _length(line: bytes) -> int:
    if not line.isdigit() or len(line) > 9 or int(line) > LONGEST_REPLY:
        raise UnreadableError("a string of another length")
    return int(line)
