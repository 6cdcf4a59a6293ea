"""Request id of a request that is refused before the application runs."""

import pytest

from app.web.server.refusal import request_id_of

LONGEST_ID = "a" * 128


@pytest.mark.parametrize("line", [LONGEST_ID, f"  \t{LONGEST_ID} \t ", "req_1", "A.b-c_9"])
def test_given_id_is_kept(line: str) -> None:
    head = f"GET / HTTP/1.1\r\nHost: here\r\nX-REQUEST-ID:{line}\r\nAccept: */*\r\n\r\n".encode()
    assert request_id_of(head) == line.strip()


@pytest.mark.parametrize(
    "header",
    [
        b"Accept: */*",
        b"X-Request-ID:",
        b"X-Request-ID: a b",
        b"X-Request-ID: a\xff",
        b"X-Request-ID: " + b"a" * 129,
        b"Other: X-Request-ID: a",
    ],
)
def test_unusable_id_is_replaced(header: bytes) -> None:
    assert request_id_of(b"GET / HTTP/1.1\r\n" + header + b"\r\n\r\n").startswith("req_")


def test_unfinished_header_is_replaced() -> None:
    assert request_id_of(b"GET / HTTP/1.1\r\nX-Request-ID: abc").startswith("req_")


@pytest.mark.timeout(60)  # a quadratic search would take hours
@pytest.mark.parametrize("rest", [b"", b"\x80" * 100, b"\r\n\r\n"], ids=["cut", "refused", "complete"])
def test_search_is_linear_in_the_blanks_of_a_head(rest: bytes) -> None:
    blanks = b" \t" * 4_000_000
    assert request_id_of(b"GET / HTTP/1.1\r\nx-request-id:" + blanks + rest).startswith("req_")
