"""Verification of signed requests by the receiver package, with signatures of the service."""

import base64
from email.message import Message
from typing import Any

import pytest
from task_executor_receiver import VerificationError, Verifier
from werkzeug.datastructures import Headers as FlaskHeaders

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.signing import signed
from tests.cases import each_case

NEW, OLD = "whsec_" + base64.b64encode(b"n" * 24).decode(), "plain-ü"
NOW = 1_790_000_000
BODY = b'{"a": "\xc3\xbc"}'
ID = "exec_17fb3a"


def headers(
    secrets: dict[str, str] | None = None, attempt: int = 2, body: bytes = BODY, **changes: Any
) -> dict[str, Any]:
    """Return the headers of a delivery as a worker sends them, with changes by a test; None leaves a header out."""
    sent = signed(secrets or {"secret": NEW}, ID, NOW, body, attempt) | {"X-Task-Executor-Attempt": str(attempt)}
    by_name = {name.lower(): value for name, value in sent.items()}
    return by_name | {name.replace("_", "-"): value for name, value in changes.items()}


def reason(given: dict[str, str], body: bytes = BODY, now: float = NOW, keys: Any = NEW) -> str:
    with pytest.raises(VerificationError) as refused:
        Verifier(keys).verify(given.items(), body, now)
    return refused.value.reason


@pytest.mark.parametrize("keys", [[NEW], [OLD], [NEW, OLD], ["another", OLD]])
def test_any_key_of_a_rotation_verifies(keys: list[str]) -> None:
    both = headers({"secret": NEW, "previous_secret": OLD})
    delivery = Verifier(keys).verify([(name.title(), value) for name, value in both.items()], BODY, NOW)
    assert (delivery.execution_id, delivery.attempt, delivery.sent_at, delivery.body) == (ID, 2, NOW, BODY)
    assert delivery.json() == {"a": "ü"}


def test_headers_of_frameworks_verify_as_they_are() -> None:
    """Iteration over a Message (`http.server`) or a mapping (Django) gives names, over Flask's headers pairs."""
    message = Message()
    for name, value in headers().items():
        message[name] = value
    for given in (message, headers(), FlaskHeaders(headers())):
        assert Verifier(NEW).verify(given, BODY, NOW).execution_id == ID
    message["Webhook-Id"] = ID
    with pytest.raises(VerificationError, match="webhook-id is repeated"):
        Verifier(NEW).verify(message, BODY, NOW)


@pytest.mark.parametrize("seconds", [-300, 300])
def test_difference_of_clocks_is_tolerated_up_to_a_limit(seconds: int) -> None:
    assert Verifier(NEW).verify(headers().items(), BODY, NOW + seconds).attempt == 2
    further = seconds + (1 if seconds > 0 else -1)
    assert reason(headers(), now=NOW + further) == "timestamp"


@each_case(
    "forged",
    [
        headers(webhook_id="exec_17fb3b"),
        headers(webhook_timestamp=str(NOW + 1)),
        headers(x_task_executor_attempt="3"),
        headers() | {"x-task-executor-attempt-signature": headers(attempt=3)["x-task-executor-attempt-signature"]},
        headers() | {"x-task-executor-attempt-signature": headers(body=b"x")["x-task-executor-attempt-signature"]},
        headers() | {"x-task-executor-attempt-signature": headers()["webhook-signature"]},
        headers(webhook_signature="v1,"),
        headers(webhook_signature="v1a," + headers()["webhook-signature"][3:]),
        headers(webhook_signature=headers()["webhook-signature"].replace(",", ", ")),
        # One signature by another key beside one by our key: of the request, or of the attempt.
        headers() | {"webhook-signature": headers({"secret": OLD})["webhook-signature"]},
        headers({"secret": OLD}),
    ],
)
def test_changed_request_is_refused(forged: dict[str, str]) -> None:
    assert reason(forged) == "signature"


def test_both_signatures_must_be_by_the_same_key() -> None:
    """A request signature by a leaked old key cannot be combined with an attempt signature by the new key."""
    old, new = headers({"secret": OLD}), headers({"secret": NEW}, attempt=3)
    mixed = new | {"webhook-signature": old["webhook-signature"]}
    assert reason(mixed, keys=[NEW, OLD]) == "signature"


def test_body_that_was_parsed_and_serialised_again_is_refused() -> None:
    assert reason(headers(), BODY.replace(b" ", b"")) == "signature"


@pytest.mark.parametrize("name", sorted(headers()))
def test_each_header_is_needed_once_and_well_formed(name: str) -> None:
    assert reason({**headers(), name: ""}) == "malformed_header"
    assert reason({**headers(), name: "é" * 3}) == "malformed_header"
    assert reason({**headers(), name: "9" * 2000}) == "malformed_header"
    assert reason({key: value for key, value in headers().items() if key != name}) == "missing_header"
    pairs = [*headers().items(), (name.upper(), headers()[name])]
    with pytest.raises(VerificationError, match=f"{name} is repeated"):
        Verifier(NEW).verify(pairs, BODY, NOW)
    # WSGI servers join repeated headers with a comma.
    joined = reason({**headers(), name: f"{headers()[name]},{headers()[name]}"})
    assert joined == ("signature" if "signature" in name else "malformed_header")


@each_case("number", ["0", "-1", "+1", "01", "1.0", "\u0661", "1 ", "9999999999"])
def test_attempt_must_be_a_plain_number(number: str) -> None:
    assert reason(headers(x_task_executor_attempt=number)) == "malformed_header"


@pytest.mark.parametrize("secrets", [[], [""], ["whsec_"], ["whsec_not base64!"]])
def test_verifier_without_a_valid_key_is_refused(secrets: list[str]) -> None:
    with pytest.raises(ValueError, match="secret") as refused:
        Verifier(secrets)
    assert "not base64!" not in str(refused.value)


def test_tolerance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="tolerance_seconds is 0"):
        Verifier(NEW, tolerance_seconds=0)
