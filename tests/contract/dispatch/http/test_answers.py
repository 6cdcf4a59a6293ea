"""Outputs, errors and retry delays from the answers to HTTP requests."""

import gzip
import time
from email.utils import formatdate
from functools import partial

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.http import duration_of, retry_after_ms
from actors.dispatch.http1.answer import KEPT_BYTES, AnswerReader
from tests.cases import each_case
from tests.contract.dispatch.dispatching import identity, run
from tests.contract.dispatch.http.deliveries import dispatcher, fail, read_request, send, server, spec


def test_unexpected_status_fails_with_its_body(receiver):
    error = fail(receiver.url("/status/500"))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("HTTP_ERROR", False, False)
    assert error.extra == {"status_code": 500, "body": '{"status": 500}'}
    assert "500 Internal Server Error" in error.message
    assert fail(receiver.url("/status/299")).extra["status_code"] == 299


def test_endpoint_decides_the_expected_statuses(receiver):
    assert send(receiver.url("/status/404"), expected_status_codes=[404])["status_code"] == 404
    assert fail(receiver.url("/ok"), expected_status_codes=[404]).extra["status_code"] == 200


def test_status_410_fails_permanently_unless_expected(receiver):
    assert fail(receiver.url("/status/410")).permanent
    assert send(receiver.url("/status/410"), expected_status_codes=[410])["status_code"] == 410


def test_redirect_is_not_followed(receiver):
    error = fail(receiver.url("/redirect"))
    assert (error.type, error.extra["status_code"]) == ("HTTP_ERROR", 302)
    assert not receiver.record.matching("/ok/redirected")


def test_cookies_are_not_sent_back(receiver):
    async def main(http):
        async def answer(reader, writer, _):
            heads.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

        heads = []
        async with server(answer) as base:
            for _ in range(2):
                await http.send(spec(base + "/"), identity())
        return heads

    assert not any(b"cookie" in head.lower() for head in run(dispatcher(), main))


@pytest.mark.parametrize("status", [409, 429, 503])
def test_retry_after_is_returned_for_409_429_and_503(receiver, status):
    assert fail(receiver.url(f"/retry-after/7/{status}?status={status}")).retry_after_ms == 7000


def test_retry_after_is_ignored_for_other_statuses(receiver):
    assert fail(receiver.url("/retry-after/7/500?status=500")).retry_after_ms is None


NOW = 1_700_000_000.0
httpdate = partial(formatdate, usegmt=True)
DAY = 24 * 3600 * 1000


@each_case(
    ("value", "expected"),
    [
        ("", None),
        ("0", None),
        (" 5 ", 5000),
        ("-5", None),
        ("1.5", None),
        ("99999999", DAY),
        ("9" * 400, None),
        (httpdate(NOW + 90), 90_000),
        (httpdate(NOW - 90), None),
        (httpdate(NOW + 1e8), DAY),
        ("Mon, 99 Foo 2026 00:00:00 GMT", None),
        ("soon", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, expected):
    assert duration_of(value, NOW) == expected


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_date_in_retry_after_counts_from_the_date_of_the_answer(ahead):
    """The clock of this host may be wrong."""
    now, head = time.time() + ahead, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
    dates = f"Date: {httpdate(now)}\r\nRetry-After: {httpdate(now + 90)}\r\n"
    assert asked_by(head + dates) == 90_000
    for date in ("", "Date: today\r\n"):
        assert asked_by(f"{head}{date}Retry-After: {httpdate(time.time() + 90)}\r\n") == pytest.approx(90_000, abs=5000)
    assert asked_by(head) is None


def test_date_without_a_zone_is_in_gmt(monkeypatch):
    """As in the format of asctime, which receivers of HTTP have to accept."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nDate: Sun Nov  6 08:49:37 1994\r\n"
        assert asked_by(f"{head}Retry-After: Sun, 06 Nov 1994 08:49:43 GMT\r\n") == 6000
    finally:
        monkeypatch.undo()
        time.tzset()


def asked_by(head: str):
    reader = AnswerReader()
    reader.feed(f"{head}\r\n".encode())
    assert reader.is_complete
    return retry_after_ms(reader)


def test_long_body_is_truncated(receiver):
    output = send(receiver.url("/big"), timeout_ms=10_000)
    assert output == {"status_code": 200, "body": "x" * KEPT_BYTES}


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"a\0b", "ab"), (b"\xff\xfe", "��"), ("é😀".encode(), "é😀"), (b"\xed\xa0\x80", "���"), (b"", "")],
)
def test_body_becomes_text_that_the_database_can_store(raw, text):
    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw))

        async with server(answer) as base:
            return await http.send(spec(base), identity())

    assert run(dispatcher(), main)["body"] == text


def test_compressed_body_is_not_decompressed():
    """A few compressed bytes can expand to gigabytes."""
    packed = gzip.compress(b"x" * 100_000)

    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
            writer.write(head + packed)

        async with server(answer) as base:
            return await http.send(spec(base), identity())

    assert len(run(dispatcher(), main)["body"]) <= len(packed)


def test_endless_body_is_a_success_with_a_truncated_body():
    async def main(http):
        async def answer(reader, writer, _):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()

        async with server(answer) as base:
            return await http.send(spec(base, timeout_ms=30_000), identity())

    assert len(run(dispatcher(), main)["body"]) == KEPT_BYTES
