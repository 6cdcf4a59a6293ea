"""Redis replies read from bytes: in pieces of any size, up to the maximum length."""

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.resp import MAX_REPLY_BYTES, RefusedError, ReplyReader, UnreadableError, write_command
from tests.cases import each_case

REPLIES = b"+OK\r\n$3\r\n1-2\r\n$0\r\n\r\n:7\r\n$4\r\na\r\nb\r\n-ERR no\r\n"
READ = [b"OK", b"1-2", b"", b"7", b"a\r\nb", "ERR no"]


def read(data: bytes, size: int) -> list[bytes | RefusedError]:
    reader = ReplyReader()
    return [reply for start in range(0, len(data), size) for reply in reader.feed(data[start : start + size])]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(REPLIES)])
def test_replies_are_read_from_pieces_of_any_size(size: int) -> None:
    assert [str(reply) if isinstance(reply, RefusedError) else reply for reply in read(REPLIES, size)] == READ


@each_case(
    "data",
    [
        b"*1\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"$-1\r\n",
        b"$+1\r\n",
        b"$\r\n",
        b"$%d\r\n" % (MAX_REPLY_BYTES + 1),
        b"$" + b"9" * 5000 + b"\r\n",
        b"+" + b"x" * MAX_REPLY_BYTES * 2,
        b"$" + b"x" * MAX_REPLY_BYTES * 2,
    ],
)
def test_unexpected_reply_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(data, 1000)


def test_longest_reply_is_read() -> None:
    text = b"x" * MAX_REPLY_BYTES
    assert list(ReplyReader().feed(b"$%d\r\n%b\r\n" % (len(text), text))) == [text]


def test_command_is_written_with_the_lengths_of_its_bytes() -> None:
    assert write_command(["SET", "é", "\0\r\n", "\ud800"]) == (
        b"*4\r\n$3\r\nSET\r\n$2\r\n\xc3\xa9\r\n$3\r\n\0\r\n\r\n$1\r\n?\r\n"
    )
