"""Payload of wake-up hints."""

import pytest

from app.kernel.wakeup import MAX_BYTES, Place, decode, encode

LOW: Place = (3, "send-mail", "=a,b\tc=ü%", 0)
HIGH: Place = (0, "way", "", 255)


@pytest.mark.parametrize(
    "hints",
    [{"http": {None}}, {"http": {LOW}}, {"http": {LOW, HIGH}, "kafka": {None}}, {"http": {None, LOW}, "kafka": {HIGH}}],
)
def test_decode_returns_the_encoded_hints(hints: dict[str, set[Place | None]]) -> None:
    expected = {(queue, place) for queue, places in hints.items() for place in places}
    assert sorted(decode(encode(hints)), key=repr) == sorted(expected, key=repr)


def test_worker_of_an_earlier_version_reads_the_names() -> None:
    """An old worker splits the payload at commas into names, and ignores unknown names."""
    payload = encode({"kafka": {LOW, None}, "http": {HIGH}})
    assert [part for part in payload.split(",") if "\t" not in part] == ["http", "kafka"]
    assert decode("http,kafka") == [("http", None), ("kafka", None)]


def test_hint_that_would_be_too_long_is_left_out() -> None:
    many: set[Place | None] = {(0, "way", f"={'ü' * 100}{number}", 128) for number in range(20)}
    assert encode({"http": many, "kafka": {None}}) == "http,kafka"
    assert len(encode({"http": many})) <= MAX_BYTES


@pytest.mark.parametrize("payload", ["", "http\tx\ty\tz\t128", "http\t0", "\t\t\t\t,http", "http\t1\t2\t3\t4\t5"])
def test_malformed_payload_wakes_without_a_partition(payload: str) -> None:
    assert all(place is None for _, place in decode(payload))
