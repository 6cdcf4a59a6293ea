"""Validation of retry policies: accepted policies, refused policies, and the pointers in errors."""

import pytest

from app.catalog.check_spec import check_retry_policy
from app.kernel.errors import InvalidRequestError
from tests.cases import each_case


@each_case(
    "policy",
    [
        None,
        {},
        {"max_attempts": 100, "backoff": "linear", "initial_delay_ms": 0, "max_delay_ms": 0},
        {"backoff": "fixed", "max_delay_ms": 86_400_000, "initial_delay_ms": 86_400_000},
        {"backoff": "decorrelated", "initial_delay_ms": 10},
        {"max_delay_ms": 999},
        {"backoff": "custom", "delays_ms": [0, 86_400_000], "initial_delay_ms": 60_001},
        {"backoff": "custom", "delays_ms": [1] * 100},
        {"fail_on": [], "max_age_ms": None},
        {"fail_on": [100, 599, "TIMEOUT", "WORKER_LOST"], "max_age_ms": 1},
        {"retry_on": ["5xx", 429], "ignore_on": [404], "reject_on": [{"pointer": "", "equals": None}]},
        {"fail_on": [{"pointer": "/a~1b/0", "in": ["x" * 200, 1.5, True], "status": "4xx"}] * 100},
        {"retry_on": [{"pointer": "/" + "x" * 199, "in": [0] * 100, "status": 422}]},
    ],
)
def test_valid_retry_policy_is_accepted(policy):
    check_retry_policy(policy)


@each_case(
    ("policy", "pointer"),
    [
        ([], "/retry_policy"),
        ({"max_attempts": 0}, "/retry_policy/max_attempts"),
        ({"max_attempts": 101}, "/retry_policy/max_attempts"),
        ({"max_attempts": True}, "/retry_policy/max_attempts"),
        ({"max_attempts": None}, "/retry_policy/max_attempts"),
        ({"backoff": "random"}, "/retry_policy/backoff"),
        ({"initial_delay_ms": -1}, "/retry_policy/initial_delay_ms"),
        ({"max_delay_ms": 86_400_001}, "/retry_policy/max_delay_ms"),
        ({"initial_delay_ms": 60_001}, "/retry_policy/initial_delay_ms"),
        ({"initial_delay_ms": 1000, "max_delay_ms": 999}, "/retry_policy/initial_delay_ms"),
        ({"attempts": 3}, "/retry_policy/attempts"),
        ({"delays_ms": [1]}, "/retry_policy/delays_ms"),
        ({"backoff": "custom"}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": []}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": [1] * 101}, "/retry_policy/delays_ms"),
        ({"backoff": "custom", "delays_ms": [1, -1]}, "/retry_policy/delays_ms/1"),
        ({"backoff": "custom", "delays_ms": [86_400_001]}, "/retry_policy/delays_ms/0"),
        ({"fail_on": 503}, "/retry_policy/fail_on"),
        ({"fail_on": [401, 600]}, "/retry_policy/fail_on/1"),
        ({"fail_on": [True]}, "/retry_policy/fail_on/0"),
        ({"fail_on": ["TIMEUOT"]}, "/retry_policy/fail_on/0"),
        ({"fail_on": [401] * 101}, "/retry_policy/fail_on"),
        ({"fail_on": ["6xx"]}, "/retry_policy/fail_on/0"),
        ({"fail_on": ["5xx\n"]}, "/retry_policy/fail_on/0"),
        ({"fail_on": ["TEMPLATE_RESOLUTION_FAILED"]}, "/retry_policy/fail_on/0"),
        ({"ignore_on": None}, "/retry_policy/ignore_on"),
        ({"reject_on": [404, []]}, "/retry_policy/reject_on/1"),
        ({"retry_on": [{"equals": 1}]}, "/retry_policy/retry_on/0/pointer"),
        ({"retry_on": [{"pointer": "a", "equals": 1}]}, "/retry_policy/retry_on/0/pointer"),
        ({"retry_on": [{"pointer": "/a~2", "equals": 1}]}, "/retry_policy/retry_on/0/pointer"),
        ({"retry_on": [{"pointer": "\n", "equals": 1}]}, "/retry_policy/retry_on/0/pointer"),
        ({"retry_on": [{"pointer": "/" + "x" * 200, "equals": 1}]}, "/retry_policy/retry_on/0/pointer"),
        ({"retry_on": [{"pointer": "/a"}]}, "/retry_policy/retry_on/0/equals"),
        ({"retry_on": [{"pointer": "/a", "equals": 1, "in": [1]}]}, "/retry_policy/retry_on/0/equals"),
        ({"retry_on": [{"pointer": "/a", "equals": {}}]}, "/retry_policy/retry_on/0/equals"),
        ({"retry_on": [{"pointer": "/a", "equals": "x" * 201}]}, "/retry_policy/retry_on/0/equals"),
        ({"retry_on": [{"pointer": "/a", "in": []}]}, "/retry_policy/retry_on/0/in"),
        ({"retry_on": [{"pointer": "/a", "in": 5}]}, "/retry_policy/retry_on/0/in"),
        ({"retry_on": [{"pointer": "/a", "in": [1] * 101}]}, "/retry_policy/retry_on/0/in"),
        ({"retry_on": [{"pointer": "/a", "equals": 1, "status": True}]}, "/retry_policy/retry_on/0/status"),
        ({"retry_on": [{"pointer": "/a", "equals": 1, "matches": ".*"}]}, "/retry_policy/retry_on/0/matches"),
        ({"max_age_ms": 0}, "/retry_policy/max_age_ms"),
        ({"max_age_ms": 30 * 86_400_000 + 1}, "/retry_policy/max_age_ms"),
    ],
)
def test_invalid_retry_policy_is_refused(policy, pointer):
    with pytest.raises(InvalidRequestError) as caught:
        check_retry_policy(policy)
    assert [detail["pointer"] for detail in caught.value.details] == [pointer]
