"""HTTP answers read from bytes: accepted answers, refused answers, and the limits of reading."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http1.answer import (
    DRAINED_BYTES,
    KEPT_BYTES,
    MAX_BYTES,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    MAX_INTERIM,
    AnswerError,
    AnswerReader,
)
from tests.cases import each_case

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"
EMPTY = HEAD + b"Content-Length: 0\r\n\r\n"


def read(data: bytes, *, ends: bool = False) -> AnswerReader:
    reader = AnswerReader()
    reader.feed(data)
    if ends:
        reader.end()
    return reader


def outcome(data: bytes, *, ends: bool = True) -> tuple[int, str, bool]:
    reader = read(data, ends=ends)
    assert reader.is_complete
    return reader.status, reader.text, reader.keeps_alive


@each_case(
    ("data", "wanted"),
    [
        (EMPTY, (200, "", True)),
        (HEAD + b"Content-Length: 2\r\n\r\nok", (200, "ok", True)),
        (CHUNKED + b"2\r\nok\r\n1;a=b\r\n!\r\n0\r\nX: y\r\n\r\n", (200, "ok!", True)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, "", True)),
        (b"HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", (304, "", True)),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", (200, "", True)),
        (HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", (200, "ok", False)),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, "ok", False)),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", (200, "ok", True)),
        (HEAD + b"\r\nuntil the end", (200, "until the end", False)),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\nx", (200, "x", False)),
        (INTERIM + b"HTTP/1.1 100 Continue\r\nRetry-After: 1\r\n\r\n" + EMPTY, (200, "", True)),
        (b"HTTP/1.1 199 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + EMPTY, (200, "", True)),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\0\1", (101, "", False)),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", (200, "ok", True)),
    ],
)
def test_answer_is_read_to_its_end(data: bytes, wanted: tuple[int, str, bool]) -> None:
    assert outcome(data) == wanted


@pytest.mark.parametrize("surplus", [EMPTY, b"x", b"\0", INTERIM])
def test_bytes_after_an_answer_are_not_the_next_answer(surplus: bytes) -> None:
    answer = HEAD + b"Content-Length: 2\r\n\r\nok"
    assert outcome(answer + surplus) == (200, "ok", False)
    reader = read(answer)
    assert reader.keeps_alive
    reader.feed(surplus)
    assert (reader.status, reader.text, reader.keeps_alive) == (200, "ok", False)


def test_retry_after_of_an_interim_answer_does_not_count() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 99\r\n\r\n"
    assert read(interim + HEAD + b"retry-AFTER: 7\r\nContent-Length: 0\r\n\r\n").retry_after == "7"
    assert read(interim + EMPTY).retry_after is None


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 2", HEAD, HEAD + b"Content-Le", INTERIM])
def test_connection_that_ends_before_the_head_is_an_error(data: bytes) -> None:
    with pytest.raises(AnswerError, match="without an answer"):
        read(data, ends=True)


@pytest.mark.parametrize(
    "data", [HEAD + b"Content-Length: 3\r\n\r\nab", CHUNKED, CHUNKED + b"2\r\nok\r\n0\r\nX: y\r\n"]
)
def test_connection_that_ends_in_the_middle_of_an_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(AnswerError, match="in the middle"):
        read(data, ends=True)


@each_case(
    "data",
    [
        b"\0",
        b"SSH-2.0-x\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        HEAD + b"a\0: b\r\n\r\n",
        HEAD + b"a: b\0c\r\n\r\n",
        HEAD + b"a b: c\r\n\r\n",
        HEAD + b": c\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        CHUNKED + b"g\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"99999999999999999\r\n",
        CHUNKED + b"1\r\nxy",
    ],
)
def test_invalid_http_is_an_error(data: bytes) -> None:
    with pytest.raises(AnswerError, match="not valid HTTP"):
        read(data)


@each_case(
    ("begin", "endless", "limit", "most"),
    [
        (b"", INTERIM, f"more than {MAX_INTERIM} interim answers", 1024),
        (HEAD, b"a:b\r\n", f"more than {MAX_FIELDS} header fields", 4096),
        (b"HTTP/1.1 103 x\r\n", b"a:b\r\n", f"more than {MAX_FIELDS} header fields", 4096),
        (b"", b"\r\n", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (b"HTTP/1.1 200 ", b"O", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (HEAD, b"x", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (HEAD + b"x:", b" ", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (HEAD + b"x:", b"y", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (b"HTTP/1.1 199 x\r\nContent-Length: 999999\r\n\r\n", b"y", "a head of more than 64 KiB", MAX_HEAD_BYTES),
        (CHUNKED, b"0", "longer than 256 KiB", MAX_BYTES),
        (CHUNKED + b"1;", b"x", "longer than 256 KiB", MAX_BYTES),
        (CHUNKED, b"1;aaaaaaaaaaaaaaaaaa\r\nx\r\n", "longer than 256 KiB", MAX_BYTES),
        (CHUNKED + b"0\r\n", b"a:b\r\n", f"more than {MAX_FIELDS} header fields", 4096),
        (CHUNKED + b"0\r\na:", b"b", "longer than 256 KiB", MAX_BYTES),
    ],
)
def test_endless_answer_is_refused(begin: bytes, endless: bytes, limit: str, most: int) -> None:
    reader, count = AnswerReader(), 0

    def read_on() -> None:
        nonlocal count
        for piece in pieces(begin, endless):
            reader.feed(piece)
            count += len(piece)

    with pytest.raises(AnswerError, match=limit):
        read_on()
    assert count <= most


@pytest.mark.parametrize(
    ("begin", "endless", "most"),
    [
        (HEAD + b"\r\n", b"x", DRAINED_BYTES),
        (HEAD + b"Content-Length: 1000000000000000000\r\n\r\n", b"x", DRAINED_BYTES),
        (CHUNKED, b"100\r\n" + b"x" * 256 + b"\r\n", MAX_BYTES),
        (CHUNKED + b"fffffffffffffff\r\n", b"x", DRAINED_BYTES),
        (CHUNKED, b"1\r\nx\r\n", MAX_BYTES),
    ],
)
def test_too_long_body_is_cut(begin: bytes, endless: bytes, most: int) -> None:
    reader, count = AnswerReader(), 0
    for piece in pieces(begin, endless):
        reader.feed(piece)
        count += len(piece)
        if reader.is_complete:
            break
    assert count <= most + 1024
    assert (reader.status, reader.text, reader.keeps_alive) == (200, "x" * KEPT_BYTES, False)


def test_body_of_the_maximum_length_keeps_the_connection() -> None:
    head = HEAD + b"Content-Length: %d\r\n\r\n" % DRAINED_BYTES
    assert outcome(head + b"x" * DRAINED_BYTES) == (200, "x" * KEPT_BYTES, True)


def pieces(begin: bytes, endless: bytes) -> Iterator[bytes]:
    """Yield an endless answer in pieces of some hundred bytes."""
    return chain([begin], repeat(endless * max(1, 512 // len(endless))))
