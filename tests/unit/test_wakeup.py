"""Payload of wake-ups, which any login of the database may forge."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kernel.formats import EPOCH
from app.kernel.wakeup import MAX_CHARACTERS, MAX_PARTS, Hints, Wakeup, decode, digest_of, encode
from tests.forged_wakeups import DIGEST, FORGED

OTHER = digest_of(0, "way", "", 255)


@pytest.mark.parametrize(
    "hints",
    [
        {"http": {"": 0}},
        {"http": {DIGEST: 1_700_000_000_123}},
        {"http": {DIGEST: 0, OTHER: 7_258_118_400_000 - 1}, "kafka": {"": 0}},
        {"http": {"": 0, DIGEST: 5}, "a" * 63: {OTHER: 6}},
    ],
)
def test_decode_returns_the_encoded_hints(hints: Hints) -> None:
    expected = {
        Wakeup(queue, digest, EPOCH + timedelta(milliseconds=run_at)) if digest else Wakeup(queue)
        for queue, due in hints.items()
        for digest, run_at in due.items()
    }
    assert decode(encode(hints)) == (expected, 0)


def test_payload_contains_no_endpoint_and_no_limit_key() -> None:
    payload = encode({"http": {DIGEST: 5}})
    assert payload == f"http\t{DIGEST}\t5"
    assert digest_of(3, "send-mail", "=a", 0) != DIGEST


def test_worker_of_an_earlier_version_reads_the_queue_as_the_first_field() -> None:
    assert {part.split("\t")[0] for part in encode({"kafka": {DIGEST: 1}, "http": {"": 0}}).split(",")} == {
        "kafka",
        "http",
    }


def test_too_many_partitions_are_left_out() -> None:
    many = {digest_of(0, "way", str(number), 128): number for number in range(MAX_PARTS)}
    assert encode({"http": many, "kafka": {"": 0}}) == "http,kafka"
    longest = {"q" * 63: dict.fromkeys(many, 10**13 - 1)}
    assert len(encode(longest)) <= MAX_CHARACTERS
    assert len(decode(encode(longest))[0]) == MAX_PARTS
    assert len(encode({f"{'q' * 60}{number}": {"": 0} for number in range(200)}).split(",")) == MAX_PARTS


@pytest.mark.parametrize("payload", FORGED)
def test_part_that_no_sender_writes_is_dropped(payload: str) -> None:
    assert decode(payload) == (set(), payload.count(",") + 1)
    assert decode(f"kafka,{payload}")[0] == {Wakeup("kafka")}


def test_payload_beyond_the_bounds_is_dropped() -> None:
    assert decode("http," * MAX_CHARACTERS) == (set(), 1)
    wakeups, dropped = decode(",".join(["http"] * (MAX_PARTS + 9)))
    assert (wakeups, dropped) == ({Wakeup("http")}, 9)


@given(st.text() | st.from_regex(r"[a-z]{0,70}(\t[0-9a-f]{14,18}(\t[0-9]{0,20})?)?(,[a-z\t0-9]*)*", fullmatch=True))
def test_no_payload_raises(payload: str) -> None:
    wakeups, dropped = decode(payload)
    assert len(wakeups) <= MAX_PARTS
    assert len(wakeups) + dropped >= 1
