"""Actions of a retry policy for an error or an answer: the first list with a matching entry decides."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import RetryAction, outcome, refusal

LISTS = {
    "fail_on": RetryAction.FAIL,
    "reject_on": RetryAction.REJECT,
    "ignore_on": RetryAction.IGNORE,
    "retry_on": RetryAction.RETRY,
}
OK = {"pointer": "/ok", "equals": False}


def answered(status: int, body: Any = None) -> dict[str, Any]:
    return {"status_code": status, "body": body if isinstance(body, str) else json.dumps(body)}


def failed(answer: dict[str, Any], **policy: list[Any]) -> RetryAction | None:
    error = DeliveryError("HTTP_ERROR", "not expected", extra=answer)
    return outcome(error, answer, RetryPolicy.from_json(policy))


@pytest.mark.parametrize(
    ("matcher", "status", "body", "matches"),
    [
        (503, 503, None, True),
        (503, 502, None, False),
        ("5xx", 599, None, True),
        ("5xx", 499, None, False),
        ("HTTP_ERROR", 400, None, True),
        ("TIMEOUT", 400, None, False),
        (OK, 500, {"ok": False}, True),
        (OK, 500, {"ok": 0}, False),
        (OK, 500, {"ok": True}, False),
        (OK, 500, {}, False),
        (OK, 500, [{"ok": False}], False),
        (OK, 500, "ok", False),
        pytest.param(OK, 500, "[" * 20_000, False, id="deep"),
        (OK, 500, '{"ok": false, "of": NaN}', False),
        (OK, 500, '{"ok": false, "more', False),
        ({"pointer": "", "equals": "busy"}, 500, '"busy"', True),
        ({"pointer": "/e/1/c~1d~0", "equals": 1}, 500, {"e": [0, {"c/d~": 1.0}]}, True),
        ({"pointer": "/e/01", "equals": 1}, 500, {"e": [0, 1]}, False),
        ({"pointer": "/e/-", "equals": 1}, 500, {"e": [0, 1]}, False),
        ({"pointer": "/e/2", "equals": None}, 500, {"e": [0, 1]}, False),
        ({"pointer": "/e", "equals": None}, 500, {"e": None}, True),
        ({"pointer": "/e", "equals": None}, 500, {"e": {}}, False),
        ({"pointer": "/e", "in": ["a", 1, True]}, 500, {"e": True}, True),
        ({"pointer": "/e", "in": ["a", 1]}, 500, {"e": True}, False),
        ({"pointer": "/e", "in": ["a", 1]}, 500, {"e": "a"}, True),
        (OK | {"status": 422}, 422, {"ok": False}, True),
        (OK | {"status": 422}, 400, {"ok": False}, False),
        (OK | {"status": "4xx"}, 400, {"ok": False}, True),
        (OK | {"status": "4xx"}, 500, {"ok": False}, False),
    ],
)
def test_matcher_matches_status_type_or_body(matcher: Any, status: int, body: Any, matches: bool) -> None:
    assert (failed(answered(status, body), fail_on=[matcher]) is RetryAction.FAIL) is matches


ANY = st.sampled_from([503, "5xx", "HTTP_ERROR", OK, 200, "TIMEOUT", {"pointer": "/ok", "equals": True}])


@given(policy=st.fixed_dictionaries({}, optional={name: st.lists(ANY, max_size=3) for name in LISTS}))
def test_first_list_that_matches_an_error_decides(policy: dict[str, list[Any]]) -> None:
    """The lists may hold any matchers; the action depends on the lists and the error alone."""
    answer = answered(503, {"ok": False})
    naming = [action for name, action in LISTS.items() if failed(answer, fail_on=policy.get(name, []))]
    unnamed = RetryAction.FAIL if policy.get("retry_on") else None
    assert failed(answer, **policy) is (naming[0] if naming else unnamed)


def test_retry_on_excludes_all_other_errors_from_retries() -> None:
    policy = RetryPolicy.from_json({"retry_on": ["5xx", "STUCK"]})
    assert [outcome(DeliveryError(type_, ""), {}, policy) for type_ in ("STUCK", "WORKER_LOST", "TIMEOUT")] == [
        RetryAction.RETRY,
        RetryAction.FAIL,
        RetryAction.FAIL,
    ]


@pytest.mark.parametrize(
    ("policy", "action"),
    [
        ({"fail_on": [OK]}, RetryAction.FAIL),
        ({"reject_on": [OK], "retry_on": [OK]}, RetryAction.REJECT),
        ({"retry_on": [OK]}, RetryAction.RETRY),
        ({"ignore_on": [OK], "retry_on": [OK]}, None),
        ({"fail_on": [200, "2xx"], "retry_on": ["TIMEOUT"]}, None),
        ({}, None),
    ],
)
def test_expected_answer_is_refused_only_because_of_its_body(
    policy: dict[str, list[Any]], action: RetryAction | None
) -> None:
    answer = answered(200, {"ok": False})
    refused = refusal(answer, RetryPolicy.from_json(policy))
    assert (refused and refused[1]) == action
    if refused is not None:
        error = refused[0]
        assert (error.type, error.permanent, error.extra) == ("ANSWER_REFUSED", False, answer)


def test_policy_reports_whether_answers_must_be_read() -> None:
    policies = ({}, {"fail_on": [503]}, {"ignore_on": [OK]}, *({name: [OK]} for name in ("fail_on", "retry_on")))
    assert [RetryPolicy.from_json(policy).reads_answers for policy in policies] == [False, False, False, True, True]
