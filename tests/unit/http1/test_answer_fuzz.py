"""Answers with changed, dropped, doubled and repeated bytes: reading ends within its limits, in any pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http1.answer import KEPT_BYTES, MAX_BYTES, AnswerError, AnswerReader
from tests.cases import IS_WHOLE
from tests.mutated import mutated

SEEDS = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\0\1\2",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
]
ODD = [b"\0", b"\n", b"\r", b"\r\n", b" ", b":", b"\xff", b"0", b"-", b"ffffffffffffffff", b"HTTP/1.1 103 \r\n\r\n"]
Outcome = tuple[str, int, str, str | None]


ANSWERS = mutated(SEEDS, st.sampled_from(ODD) | st.binary(max_size=8), repeat=20_000).map(
    lambda data: data[: 2 * MAX_BYTES]
)


def outcome(pieces: list[bytes]) -> tuple[Outcome, bool]:
    """Read an answer up to the end of its connection; return the result, and whether the connection can be reused."""
    reader = AnswerReader()
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.end()
    except AnswerError as error:
        return (str(error), 0, "", None), False
    assert reader.is_complete
    assert len(reader.kept) <= KEPT_BYTES
    return ("", reader.status, reader.text, reader.retry_after), reader.keeps_alive


@pytest.mark.sampled
@settings(max_examples=500 if IS_WHOLE else 150, deadline=None, derandomize=True)
@given(ANSWERS, st.lists(st.integers(1, 400), min_size=1, max_size=8))
def test_result_does_not_depend_on_the_pieces(data: bytes, lengths: list[int]) -> None:
    pieces, at, n = [], 0, 0
    while at < len(data):
        # After some hundred pieces, feed the rest at once.
        length = lengths[n % len(lengths)] if n < 400 else len(data)
        pieces.append(data[at : at + length])
        at, n = at + length, n + 1
    whole, keeps_alive = outcome([data])
    cut_up, still_keeps_alive = outcome(pieces)
    assert cut_up == whole
    # Line ends that arrive in one piece with the answer are ignored; they do no harm.
    assert keeps_alive or not still_keeps_alive


@pytest.mark.sampled
@settings(max_examples=300 if IS_WHOLE else 100, deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.sampled_from([b"", *SEEDS]))
def test_arbitrary_bytes_are_read_or_refused(data: bytes, begin: bytes) -> None:
    outcome([begin + data])
    outcome([begin, data])
