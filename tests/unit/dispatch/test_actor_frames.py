"""Frames between worker and processes, and outcomes of any form."""

import json
from typing import Any

import dramatiq
import pytest
from dramatiq.encoder import PickleEncoder
from dramatiq.errors import DecodeError
from dramatiq.message import Message
from task_executor_dramatiq import frames as kit_frames
from task_executor_dramatiq import messages

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor_link.frames import (
    MAX_FRAME_BYTES,
    FrameError,
    FrameKind,
    FrameReader,
    encode,
    encode_about,
)
from actors.dispatch.actor_link.outcome import (
    MAX_FOLLOWING_BYTES,
    MAX_RESULT_BYTES,
    MAX_TRACEBACK_CHARACTERS,
    again_error,
    failed_error,
    following_jobs,
    result_of,
)
from app.catalog.endpoints.actor_options import spec_of
from app.catalog.specs.actor import endpoint_name, timeout_of_message
from app.kernel.formats import is_unstorable
from app.queue.executions.execution_model import DeliveryError, FollowingJob
from schema.inline_bounds import MAX_TIMEOUT_MS
from schema.job_bounds import MAX_INPUT_BYTES


def anything(_endpoint: str) -> bool:
    return True


def test_frames_are_read_whatever_pieces_they_come_in() -> None:
    sent = [encode(FrameKind.DONE, execution="e", attempt=1, result="ä" * 9), encode(FrameKind.DRAIN)]
    reader, found = FrameReader(), []
    for byte in b"".join(sent):
        found += reader.feed(bytes([byte]))
    assert found == [{"kind": "DONE", "execution": "e", "attempt": 1, "result": "ä" * 9}, {"kind": "DRAIN"}]


def test_both_sides_write_the_same_frames() -> None:
    ours, theirs = encode(FrameKind.ROOM, queue="q", places=2), kit_frames.encode("ROOM", queue="q", places=2)
    assert ours == theirs
    assert kit_frames.MAX_FRAME_BYTES == MAX_FRAME_BYTES
    assert list(kit_frames.FrameReader().feed(ours + theirs)) == [*FrameReader().feed(ours + theirs)]


@pytest.mark.parametrize("execution_id", ["exec_1", 'a"\\\n\ud800é'])
def test_frame_about_a_message_is_written_as_every_frame(execution_id: str) -> None:
    named = {"execution": execution_id, "attempt": 2}
    assert encode_about(FrameKind.ABORT, execution_id, 2) == encode(FrameKind.ABORT, **named)
    written = encode_about(FrameKind.WRITTEN, execution_id, 2, ',"is_written":true')
    assert written == encode(FrameKind.WRITTEN, **named, is_written=True)
    assert kit_frames.encode_about("STARTED", (execution_id, 2)) == kit_frames.encode("STARTED", **named)


def test_largest_outcome_that_is_stored_fits_into_a_frame() -> None:
    assert 4096 + MAX_RESULT_BYTES + MAX_FOLLOWING_BYTES < MAX_FRAME_BYTES


TOO_LONG = (MAX_FRAME_BYTES + 1).to_bytes(4, "big")


def test_refusal_of_a_long_frame_says_what_to_change() -> None:
    hello = encode(FrameKind.HELLO, protocol=1, session="s" * 200)[4:]
    with pytest.raises(FrameError, match="register fewer actors by a HELLO, or store a large result elsewhere"):
        list(FrameReader().feed(TOO_LONG + hello))


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("result", [{1}, b"bytes", {(1, 2): 3}, circular()], ids=["set", "bytes", "key", "circular"])
def test_result_that_is_not_json_fails_its_message(result: Any) -> None:
    (failed,) = kit_frames.FrameReader().feed(kit_frames.encode_outcome("DONE", ("exec_1", 1), result=result))
    assert (failed["kind"], failed["execution"], failed["error"]["type"]) == ("FAILED", "exec_1", "UNSTORABLE")


@pytest.mark.parametrize("piece", [7, 65_536, 2 * MAX_FRAME_BYTES])
def test_outcome_that_is_too_large_becomes_a_failure_and_is_skipped(piece: int) -> None:
    named = {"execution": "exec_0", "attempt": 2}
    sent = encode(FrameKind.DONE, **named, result="x" * (MAX_FRAME_BYTES if piece > 7 else 10_000))
    if piece == 7:  # few bytes, and the length of many: the rest is still to come
        sent = TOO_LONG + sent[4:]
    else:
        sent += encode(FrameKind.DRAIN)
    reader = FrameReader()
    found = [frame for at in range(0, len(sent), piece) for frame in reader.feed(sent[at : at + piece])]
    failed, *later = found
    assert (failed["kind"], failed["execution"], failed["attempt"]) == ("FAILED", "exec_0", 2)
    assert failed["error"]["type"] == "RESULT_TOO_LARGE"
    assert failed_error(failed).permanent
    assert later == ([] if piece == 7 else [{"kind": "DRAIN"}])


@pytest.mark.parametrize(
    "data",
    [
        TOO_LONG + b'{"kind":"DONE","result":"' + b"x" * 200,
        b"\0\0\0\1{",
        b"\0\0\0\2[]",
        b"\0\0\0\2{}",
        len(b"[" * 100_000).to_bytes(4, "big") + b"[" * 100_000,
    ],
)
def test_malformed_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        list(FrameReader().feed(data))


def test_result_is_the_body_and_may_be_absent() -> None:
    assert result_of({"kind": "DONE", "result": None}) == {"body": None}
    assert result_of({"kind": "DONE"}) == {}
    assert result_of({"kind": "DONE", "skipped": True}) == {"skipped": True}
    for result in ("x" * MAX_RESULT_BYTES, [10**38, "x" * MAX_RESULT_BYTES]):  # whose digits are not looked at
        with pytest.raises(DeliveryError, match="results backend of your own") as refused:
            result_of({"kind": "DONE", "result": result})
        assert (refused.value.type, refused.value.permanent) == ("RESULT_TOO_LARGE", True)


UNSTORABLE = [json.loads(r'"\u0000"'), json.loads(r'"\ud800"'), float("nan"), float("inf"), 10**38, -(10**38)]


@pytest.mark.parametrize("value", UNSTORABLE)
def test_value_that_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(DeliveryError, match="cannot be stored") as refused:
        result_of({"kind": "DONE", "result": {"a": [value]}})
    assert (refused.value.type, refused.value.permanent) == ("UNSTORABLE", True)
    with pytest.raises(DeliveryError, match="cannot be stored") as refused:
        following_jobs({"then": [{"endpoint": "mail", "input": {"a": value}, "key": "k"}]}, anything)
    assert (refused.value.type, refused.value.permanent) == ("THEN_REFUSED", True)


def test_text_about_unstorable_characters_and_a_pair_of_surrogates_is_stored() -> None:
    for text in (r"\u0000", "\U0001f600"):
        assert result_of({"kind": "DONE", "result": text}) == {"body": text}


@pytest.mark.parametrize("value", [10**38 - 1, -(10**38) + 1, "1" * 50, 1e300])
def test_number_of_38_digits_and_a_text_of_more_are_stored(value: object) -> None:
    assert result_of({"kind": "DONE", "result": [value]}) == {"body": [value]}


@pytest.mark.parametrize("value", UNSTORABLE)
def test_error_with_a_value_that_cannot_be_stored_keeps_the_number_of_retries(value: object) -> None:
    told = {"type": "E", "message": f"a{value}", "traceback": f"t{value}", "causes": [f"c{value}"]}
    frame = {"kind": "AGAIN", "error": {**told, "options": {"retries": 3, "other": value}}}
    stored = again_error(frame).as_json(retryable=True)
    assert stored["options"] == {"retries": 3}
    assert not is_unstorable(stored, json.dumps(stored, allow_nan=False))


def test_errors_keep_type_message_traceback_causes_and_options() -> None:
    told = {"type": "ValueError", "message": "no", "traceback": "t" * 20_000, "causes": ["KeyError: 1"]}
    error = again_error({"kind": "AGAIN", "delay_ms": 20, "error": {**told, "options": {"retries": 1}}})
    assert (error.type, error.message, error.again_ms, error.permanent) == ("ValueError", "no", 20, False)
    assert error.extra["options"] == {"retries": 1}
    assert error.extra["causes"] == ["KeyError: 1"]
    assert len(str(error.extra["traceback"])) == MAX_TRACEBACK_CHARACTERS
    assert failed_error({"kind": "FAILED"}).as_json(retryable=False)["type"] == "UNKNOWN"
    assert failed_error({"kind": "FAILED", "error": told}).permanent


def test_queue_and_actor_of_a_message_are_taken_from_its_frame() -> None:
    given = {"args": [1], "queue_name": "absent", "actor_name": "absent", "message_id": "m"}
    message = messages.message_of({"execution": "e", "attempt": 1, "actor": "mail", "queue": "mails", "input": given})
    assert (message.queue_name, message.actor_name, message.args) == ("mails", "mail", (1,))
    assert message.message_id == "m"


def test_message_in_another_encoding_gets_queue_and_actor_of_the_frame() -> None:
    sent = Message("absent", "absent", (1,), {}, {}, message_id="m")
    encoder = dramatiq.get_encoder()
    dramatiq.set_encoder(PickleEncoder())
    try:
        given = {"input": messages.input_of(sent), "actor": "mail", "queue": "mails"}
        message = messages.message_of({"execution": "e", "attempt": 1, **given})
    finally:
        dramatiq.set_encoder(encoder)
    assert (message.queue_name, message.actor_name, message.args) == ("mails", "mail", (1,))
    assert message.message_id == "m"


@pytest.mark.parametrize(
    "given",
    [
        {"encoded": 5},
        {"encoded": "a"},
        {"encoded": "a%"},
        {"args": [], "options": 5},
        {"args": "abc"},
        {"kwargs": []},
        {"args": [], "message_id": 5},
        {"args": [], "message_timestamp": "now"},
        [],
    ],
)
def test_malformed_message_is_undecodable_whatever_it_holds(given: Any) -> None:
    """Any client of the API may write it, and the thread that reads it serves all messages of the process."""
    with pytest.raises(DecodeError):
        messages.message_of({"execution": "e", "attempt": 1, "actor": "mail", "queue": "mails", "input": given})


def test_message_of_the_api_is_json_whatever_the_encoder_of_the_process() -> None:
    encoder = dramatiq.get_encoder()
    dramatiq.set_encoder(PickleEncoder())
    try:
        message = messages.message_of(
            {"execution": "e", "attempt": 1, "actor": "mail", "queue": "mails", "input": {"to": "a"}, "timestamp": 7}
        )
    finally:
        dramatiq.set_encoder(encoder)
    assert (message.kwargs, message.message_id, message.message_timestamp) == ({"to": "a"}, "e", 7)


def test_message_has_no_eta_because_the_service_has_waited() -> None:
    """Dramatiq would hold it in memory, and send another message then."""
    given = {"args": [], "options": {"eta": 9_000_000_000_000, "color": "red"}}
    message = messages.message_of({"execution": "e", "attempt": 1, "actor": "a", "queue": "q", "input": given})
    assert message.options == {"color": "red"}


def test_following_jobs_are_checked() -> None:
    job = {"endpoint": "mail", "input": {"args": []}, "key": "k", "delay_ms": 5, "priority": 999}
    assert following_jobs({"then": [job]}, anything) == (FollowingJob("mail", {"args": []}, "k", 5, 255),)
    assert following_jobs({"then": None}, anything) == ()
    for wrong in ("x", [{}], [{**job, "key": "k" * 300}], [{**job, "input": []}], [{**job, "key": ""}]):
        with pytest.raises(DeliveryError) as refused:
            following_jobs({"then": wrong}, anything)
        assert refused.value.type == "THEN_REFUSED"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"key": "te:cron:mail"}, "reserved"),
        ({"input": {"a": json.loads("[" * 100 + "]" * 100)}}, "deeper than 99"),
        ({"input": {"a": "x" * MAX_INPUT_BYTES}}, "at most 1048576"),
    ],
)
def test_following_job_has_the_bounds_of_a_request(changed: dict[str, Any], reason: str) -> None:
    job = {"endpoint": "mail", "input": {}, "key": "k"}
    with pytest.raises(DeliveryError, match=reason) as refused:
        following_jobs({"then": [{**job, **changed}]}, anything)
    assert (refused.value.type, refused.value.permanent) == ("THEN_REFUSED", True)


def test_following_jobs_fit_into_one_statement() -> None:
    large = {"endpoint": "mail", "input": {"a": "x" * 900_000}, "key": "k"}
    assert len(following_jobs({"then": [large] * 4}, anything)) == 4
    assert len(following_jobs({"then": [{**large, "input": {}}] * 500}, anything)) == 500
    for many in ([large] * 5, [{**large, "input": {}}] * 501):
        with pytest.raises(DeliveryError, match="at most"):
            following_jobs({"then": many}, anything)


def test_following_job_of_an_endpoint_that_is_closed_to_the_process_is_refused() -> None:
    jobs = [{"endpoint": endpoint, "input": {}, "key": "k"} for endpoint in ("mail", "pay")]
    assert len(following_jobs({"then": jobs[:1]}, "mail".__eq__)) == 1
    with pytest.raises(DeliveryError, match=r"of 'pay' was refused.*add the scope 'jobs:write:pay'") as refused:
        following_jobs({"then": jobs}, "mail".__eq__)
    assert (refused.value.type, refused.value.permanent) == ("THEN_REFUSED", True)


@pytest.mark.parametrize("actor", ["send_mail", "mail2", "send-mail", "Send.Mail", "ä", "_", "x" * 128])
def test_both_sides_name_the_endpoint_of_an_actor(actor: str) -> None:
    assert endpoint_name(actor) == messages.endpoint_name(actor)


def test_plain_name_of_an_actor_is_the_name_of_its_endpoint() -> None:
    assert [endpoint_name(actor) for actor in ("send_mail", "mail2")] == ["send-mail", "mail2"]
    assert endpoint_name("Send.Mail").startswith("send-mail-")


def test_names_of_actors_never_share_an_endpoint() -> None:
    actors = ["send_mail", "send-mail", "send.mail", "SendMail", "send__mail", "_send_mail", "ä", "ö", "a" * 200]
    names = [endpoint_name(actor) for actor in actors]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 128 for name in names)


@pytest.mark.parametrize(
    ("arguments", "timeout_ms"),
    [
        ({"args": [], "options": {"time_limit": 3_600_000}}, 3_630_000),
        ({"kwargs": {}, "options": {"time_limit": 1_000}}, 90_000),
        ({"args": [], "options": {"time_limit": 1e300}}, 86_400_000),
        ({"args": [], "options": {"time_limit": None}}, 90_000),
        ({"args": [], "options": {"time_limit": "long"}}, 90_000),
        ({"args": [], "options": {"time_limit": True}}, 90_000),
        ({"args": [], "options": {}}, 90_000),
        ([], 90_000),
        ({"args": [], "options": "x"}, 90_000),
        ({"options": {"time_limit": 3_600_000}}, 90_000),  # keyword arguments
        ({"args": [], "options": {"time_limit": 3_600_000}, "name": "x"}, 90_000),
    ],
)
def test_time_limit_of_a_message_may_be_longer_than_that_of_its_actor(arguments: Any, timeout_ms: int) -> None:
    assert timeout_of_message({"timeout_ms": 90_000, "arguments": arguments}) == timeout_ms


@pytest.mark.parametrize(
    ("options", "timeout_ms"),
    [
        ({}, 630_000),
        ({"time_limit": 1000}, 31_000),
        ({"time_limit": None}, MAX_TIMEOUT_MS),
        ({"time_limit": True}, MAX_TIMEOUT_MS),
    ],
)
def test_time_limit_of_an_actor_bounds_its_attempts(options: dict[str, object], timeout_ms: int) -> None:
    assert spec_of("a", "q", options) == {"actor": "a", "queue": "q", "timeout_ms": timeout_ms}
    assert spec_of("a", "q", {**options, "max_lost": 5})["max_lost"] == 5


@pytest.mark.parametrize(
    ("read", "reported", "found"),
    [
        (again_error, None, "RETRYABLE"),
        (failed_error, None, "FATAL"),
        (failed_error, "EXPECTED", "EXPECTED"),
        (again_error, "INTERRUPTED", "INTERRUPTED"),
        (failed_error, "RETRYABLE", "FATAL"),
        (failed_error, ["EXPECTED"], "FATAL"),
    ],
)
def test_category_is_that_of_the_exception_or_of_the_outcome(read: Any, reported: Any, found: str) -> None:
    assert read({"error": {"type": "ValueError", "category": reported}}).extra["category"] == found
