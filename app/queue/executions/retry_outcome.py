"""Policy: what an endpoint's retry policy says of an error, or of an answer."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from app.catalog.retry_policy import RetryPolicy
from app.catalog.retry_policy.matchers import Observed
from app.queue.executions.execution_model import DeliveryError


class RetryAction(Enum):
    """What a policy wants done."""

    FAIL = auto()  # no other attempt
    REJECT = auto()  # no other attempt, and nobody need look at it
    IGNORE = auto()  # a success
    RETRY = auto()  # another attempt, if any is left


def outcome(error: DeliveryError | None, answer: Mapping[str, Any], policy: RetryPolicy) -> RetryAction | None:
    """Return what the first list that names an error or an answer wants; None where no list does.

    `answer` may hold its `status_code` and its `body`, which has to be as it came: neither scrubbed nor clipped. An
    attempt without an error is named by what its answer says only. With a `retry_on`, an error that it does not name
    fails.
    """
    seen = Observed(error.type if error else None, answer.get("status_code"), answer.get("body"))
    if seen.is_named_by(policy.fail_on):
        return RetryAction.FAIL
    if seen.is_named_by(policy.reject_on):
        return RetryAction.REJECT
    if seen.is_named_by(policy.ignore_on):
        return RetryAction.IGNORE
    if seen.is_named_by(policy.retry_on):
        return RetryAction.RETRY
    return RetryAction.FAIL if error is not None and policy.retry_on else None


def refusal(answer: Mapping[str, Any], policy: RetryPolicy) -> tuple[DeliveryError, RetryAction] | None:
    """Return the error that a policy makes of an answer that was expected, with what it wants; None for a success."""
    action = outcome(None, answer, policy)
    if action is None or action is RetryAction.IGNORE:
        return None
    message = f"the endpoint answered {answer.get('status_code')}, and {_LISTS[action]} names what the answer says"
    kept = {name: answer[name] for name in ("status_code", "body") if name in answer}
    return DeliveryError("ANSWER_REFUSED", message, extra=kept), action


_LISTS = {RetryAction.FAIL: "fail_on", RetryAction.REJECT: "reject_on", RetryAction.RETRY: "retry_on"}
