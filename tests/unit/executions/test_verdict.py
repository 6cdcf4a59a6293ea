"""Verdicts: every outcome of an attempt is one legal transition."""

import pytest

from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide, outcome
from schema.states import ExecutionStatus, may_become
from tests.verdicts import success

POLICY = RetryPolicy(max_attempts=3)


def judge(error: DeliveryError, attempt: int) -> Verdict:
    return decide(error, None, Tried("exec_1", attempt, 3), POLICY, spread=0.0)


def test_failure_is_retried_while_attempts_are_left() -> None:
    error = DeliveryError("TIMEOUT", "no answer")
    assert judge(error, 1).status is ExecutionStatus.RETRYING
    assert judge(error, 2).delay_ms == 2000
    assert judge(error, 3).status is ExecutionStatus.FAILED


def test_permanent_failure_is_not_retried() -> None:
    verdict = judge(DeliveryError("HTTP_ERROR", "gone", permanent=True), 1)
    assert verdict.status is ExecutionStatus.FAILED
    assert verdict.error is not None
    assert verdict.error["retryable"] is False


def test_stored_error_has_the_specified_fields_and_the_details_of_the_answer() -> None:
    error = DeliveryError("HTTP_ERROR", "answered 503", extra={"status_code": 503}, may_have_been_delivered=True)
    assert judge(error, 1).error == {
        "type": "HTTP_ERROR",
        "message": "answered 503",
        "status_code": 503,
        "retryable": True,
        "may_have_been_delivered": True,
    }


@pytest.mark.parametrize(
    "verdict",
    [
        success({}),
        Verdict.ignore(DeliveryError("X", "")),
        Verdict.retry(DeliveryError("X", ""), 1),
        Verdict.fail(DeliveryError("X", "")),
        Verdict.reject(DeliveryError("X", "")),
        Verdict.abort(),
    ],
)
def test_every_verdict_is_a_legal_transition(verdict: Verdict) -> None:
    assert may_become(ExecutionStatus.RUNNING, verdict.status)


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (DeliveryError("HTTP_ERROR", "answered 401", extra={"status_code": 401}), True),
        (DeliveryError("HTTP_ERROR", "answered 503", extra={"status_code": 503}), False),
        (DeliveryError("TIMEOUT", "no answer"), True),
        (DeliveryError("CONNECTION_ERROR", "refused"), False),
    ],
)
def test_error_in_fail_on_is_final(error: DeliveryError, fails: bool) -> None:
    policy = RetryPolicy(max_attempts=3, fail_on=(401, "TIMEOUT"))
    verdict = decide(error, outcome(error, error.extra, policy), Tried("exec_1", 1, 3), policy, spread=0.0)
    assert (verdict.status is ExecutionStatus.FAILED) == fails
    assert verdict.error is not None
    assert verdict.error["retryable"] is not fails


def test_each_action_leads_to_its_final_status() -> None:
    error = DeliveryError("HTTP_ERROR", "answered 503", extra={"status_code": 503, "body": "busy"})
    by_action = {action: decide(error, action, Tried("exec_1", 1, 3), POLICY, spread=0.0) for action in RetryAction}
    assert {action: verdict.status.value for action, verdict in by_action.items()} == {
        RetryAction.FAIL: "FAILED",
        RetryAction.REJECT: "FAILED",
        RetryAction.IGNORE: "SUCCESS",
        RetryAction.RETRY: "RETRYING",
    }
    rejected = by_action[RetryAction.REJECT].error
    assert rejected is not None
    assert (rejected["rejected"], rejected["retryable"]) == (True, False)
    # The answer is stored once, beside the error.
    own = {"type": "HTTP_ERROR", "message": "answered 503", "retryable": False, "may_have_been_delivered": False}
    ignored = by_action[RetryAction.IGNORE]
    assert ignored.output == {"status_code": 503, "body": "busy", "ignored_error": own}
    assert ignored.error == own


@pytest.mark.parametrize(("extra", "status"), [({"status_code": 410}, "RETRYING"), ({}, "FAILED")])
def test_retry_on_overrides_gone_but_not_an_error_without_an_answer(extra: dict[str, object], status: str) -> None:
    error = DeliveryError("HTTP_ERROR", "for good", permanent=True, extra=extra)
    assert decide(error, RetryAction.RETRY, Tried("exec_1", 1, 3), POLICY, spread=0.0).status == status
    assert decide(error, None, Tried("exec_1", 1, 3), POLICY, spread=0.0).status == "FAILED"


def test_no_retry_starts_later_than_the_maximum_age() -> None:
    policy = RetryPolicy(max_attempts=3, backoff="fixed", initial_delay_ms=1000, max_age_ms=5000)
    error = DeliveryError("TIMEOUT", "no answer")
    statuses = [decide(error, None, Tried("exec_1", 1, 3, age), policy, spread=0.0).status for age in (0, 4000, 4001)]
    assert statuses == [ExecutionStatus.RETRYING, ExecutionStatus.RETRYING, ExecutionStatus.FAILED]
    assert decide(error, None, Tried("exec_1", 1, 3), policy, spread=0.0).max_age_ms == 5000


def test_immediate_retry_may_start_at_the_maximum_age() -> None:
    policy = RetryPolicy(max_attempts=3, max_age_ms=5000)
    error = DeliveryError("WORKER_LOST", "no result")
    verdicts = [decide(error, None, Tried("exec_1", 1, 3, age), policy, None) for age in (5000, 5001)]
    assert [verdict.delay_ms for verdict in verdicts] == [0, None]


def test_retry_after_of_the_receiver_counts_against_the_maximum_age() -> None:
    policy = RetryPolicy(max_attempts=3, max_age_ms=5000)
    error = DeliveryError("HTTP_ERROR", "answered 429", retry_after_ms=5001)
    assert decide(error, None, Tried("exec_1", 1, 3), policy, spread=0.0).status is ExecutionStatus.FAILED


def test_final_state_is_left_only_for_another_attempt() -> None:
    assert not [after for after in ExecutionStatus if may_become(ExecutionStatus.SUCCESS, after)]
    for final in (ExecutionStatus.FAILED, ExecutionStatus.CANCELLED):
        assert [after for after in ExecutionStatus if may_become(final, after)] == [ExecutionStatus.QUEUED]


LOST = DeliveryError("WORKER_LOST", "no result", may_have_been_delivered=True)


@pytest.mark.parametrize(
    ("attempt", "first_loss", "policy", "status"),
    [
        (1, True, RetryPolicy(), ExecutionStatus.RETRYING),
        (1, False, RetryPolicy(), ExecutionStatus.FAILED),
        (2, True, RetryPolicy(), ExecutionStatus.FAILED),
        (1, True, RetryPolicy(fail_on=("WORKER_LOST",)), ExecutionStatus.FAILED),
        (1, True, RetryPolicy(max_age_ms=5), ExecutionStatus.FAILED),
    ],
    ids=["the first loss", "a second loss", "only one extra attempt", "fail_on has it", "too old"],
)
def test_first_lost_worker_does_not_use_up_the_last_attempt(
    attempt: int, first_loss: bool, policy: RetryPolicy, status: ExecutionStatus
) -> None:
    assert (
        decide(LOST, outcome(LOST, {}, policy), Tried("exec_1", attempt, 1, 10, first_loss), policy, None).status
        is status
    )
