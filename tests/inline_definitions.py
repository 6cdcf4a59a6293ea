"""Definitions of inline endpoints: valid, and with a fault in the named fields."""

from typing import Any

URL = "https://shop.example/reminders"
ON_ERROR = {"max_attempts": 3, "fail_on": [410, "4xx", {"pointer": "/error/code", "in": ["gone", 1.5, None]}]}

# Numbers that JSON, Python and PostgreSQL write differently.
NUMBERS = [1.0, -0.0, 1e22, 1e23, 1e300, 0.1, 1.5e-5, -1e-300, 123456789012345.6, 1000000000000000.5, 2**60]

VALID: list[dict[str, Any]] = [
    {},
    {"body": [1, {"b": "ä\U0001f600", "a": None}]},
    {"body": {"a": 1}, "method": "PUT", "headers": {"X-Bücher".replace("ü", "u"): 'ä \\ " é', "A": ""}},
    {"url": "HTTP://[::1]:8080?a=1#b", "timeout_ms": 1, "expected_status_codes": [200, 599]},
    {"url": "https://shop.example:443/ä?ö={x}", "retry_policy": {}},
    {"retry_policy": ON_ERROR, "body": False},
    {"retry_policy": {"backoff": "custom", "delays_ms": [0, 86_400_000], "initial_delay_ms": 90_000}},
    {"retry_policy": {"max_delay_ms": 0, "max_age_ms": None, "retry_on": ["WORKER_LOST", "5xx"]}},
    {"retry_policy": {"ignore_on": [{"pointer": "", "equals": True, "status": "2xx"}], "reject_on": []}},
    {"retry_policy": {"retry_on": [{"pointer": "/a", "in": NUMBERS}]}},
    {"signing": {"secret": " {{ secret.hook }} ", "previous_secret": "{{secret.hook.before}}"}, "body": 1},
]

_MATCHER = {"pointer": "/a", "equals": 1}
FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"url": "shop.example"}, ["/url"]),
    ({"url": ""}, ["/url"]),
    ({"url": f"{URL}/{{{{input.id}}}}"}, ["/url"]),
    ({"url": "https://user:password@shop.example/"}, ["/url"]),
    ({"url": "https://sk_live@shop.example/"}, ["/url"]),
    ({"url": "https://user:pass{word@shop.example/"}, ["/url"]),
    ({"url": "https://shop.example/" + "x" * 17_000}, ["/url"]),
    ({"headers": {"A": "x" * 17_000}}, ["/url"]),
    ({"headers": {"Authorization": "Bearer abc"}}, ["/headers/Authorization"]),
    ({"headers": {"X-Api-Key": "abc", "Cookie": "a=b"}}, ["/headers/X-Api-Key", "/headers/Cookie"]),
    ({"headers": {"X_Api_Key": "abc", "X-Auth": "abc"}}, ["/headers/X_Api_Key", "/headers/X-Auth"]),
    ({"headers": {"X-Id": "Bearer abc"}}, ["/headers/X-Id"]),
    ({"headers": {"X-Id": "{{secret.a}}"}}, ["/headers/X-Id"]),
    ({"headers": {"Host": "other"}}, ["/headers/Host"]),
    ({"headers": {"X-Task-Executor-A": ""}}, ["/headers/X-Task-Executor-A"]),
    ({"headers": {"a b": ""}}, ["/headers/a b"]),
    ({"headers": {"A": 1}}, ["/headers/A"]),
    ({"headers": {"A": "1", "a": "2"}}, ["/headers/a"]),
    ({"headers": []}, ["/headers"]),
    ({"method": "TRACE"}, ["/method"]),
    ({"timeout_ms": 0}, ["/timeout_ms"]),
    ({"timeout_ms": 86_400_001}, ["/timeout_ms"]),
    ({"expected_status_codes": []}, ["/expected_status_codes"]),
    ({"expected_status_codes": [99]}, ["/expected_status_codes/0"]),
    ({"expected_status_codes": [200.5]}, ["/expected_status_codes/0"]),
    ({"retry_policy": 3}, ["/retry_policy"]),
    ({"retry_policy": {"attempts": 3}}, ["/retry_policy/attempts"]),
    ({"retry_policy": {"max_attempts": 0}}, ["/retry_policy/max_attempts"]),
    ({"retry_policy": {"max_attempts": 101}}, ["/retry_policy/max_attempts"]),
    ({"retry_policy": {"max_attempts": None}}, ["/retry_policy/max_attempts"]),
    ({"retry_policy": {"max_attempts": 1.5}}, ["/retry_policy/max_attempts"]),
    ({"retry_policy": {"max_attempts": 10**20}}, ["/retry_policy/max_attempts"]),
    ({"retry_policy": {"max_age_ms": 0}}, ["/retry_policy/max_age_ms"]),
    ({"retry_policy": {"max_delay_ms": 86_400_001}}, ["/retry_policy/max_delay_ms"]),
    ({"retry_policy": {"backoff": "slow"}}, ["/retry_policy/backoff"]),
    ({"retry_policy": {"backoff": "custom"}}, ["/retry_policy/delays_ms"]),
    ({"retry_policy": {"backoff": "custom", "delays_ms": []}}, ["/retry_policy/delays_ms"]),
    ({"retry_policy": {"backoff": "custom", "delays_ms": [86_400_001]}}, ["/retry_policy/delays_ms/0"]),
    ({"retry_policy": {"backoff": "custom", "delays_ms": [1] * 101}}, ["/retry_policy/delays_ms"]),
    ({"retry_policy": {"delays_ms": [1]}}, ["/retry_policy/delays_ms"]),
    ({"retry_policy": {"initial_delay_ms": 70_000}}, ["/retry_policy/initial_delay_ms"]),
    ({"retry_policy": {"fail_on": "5xx"}}, ["/retry_policy/fail_on"]),
    ({"retry_policy": {"fail_on": [410] * 101}}, ["/retry_policy/fail_on"]),
    *(
        ({"retry_policy": {"retry_on": [matcher]}}, [f"/retry_policy/retry_on/0{at}"])
        for matcher, at in [
            *((99, ""), (200.5, ""), (True, ""), ("6xx", ""), ("NO_ERROR", ""), ([], "")),
            (_MATCHER | {"pointer": "a"}, "/pointer"),
            (_MATCHER | {"pointer": "/~2"}, "/pointer"),
            (_MATCHER | {"pointer": "/" + "a" * 200}, "/pointer"),
            (_MATCHER | {"pointer": None}, "/pointer"),
            (_MATCHER | {"equals": []}, "/equals"),
            (_MATCHER | {"equals": "a" * 201}, "/equals"),
            (_MATCHER | {"in": [1]}, "/equals"),
            (_MATCHER | {"status": 99}, "/status"),
            (_MATCHER | {"status": "HTTP_ERROR"}, "/status"),
            (_MATCHER | {"other": 1}, "/other"),
            ({"pointer": "/a"}, "/equals"),
            ({"pointer": "/a", "in": []}, "/in"),
            ({"pointer": "/a", "in": 1}, "/in"),
            ({"pointer": "/a", "in": [{}]}, "/in"),
        ]
    ),
    ({"signing": {"secret": "clear"}}, ["/signing/secret"]),
    ({"signing": {}}, ["/signing/secret"]),
    ({"signing": {"secret": "{{secret.hook}}", "key": "a"}}, ["/signing/key"]),
    ({"signing": "{{secret.hook}}"}, ["/signing"]),
]
# Faults that only a registration finds.
LATE_FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"timeout_ms": 300_000}, ["/timeout_ms"]),
    ({"url": "https://shop.example:65536/"}, ["/url"]),
    ({"url": "https://[::1/"}, ["/url"]),
    ({"url": "https://a b/"}, ["/url"]),
    ({"url": "https://shop.example/\n"}, ["/url"]),
    ({"headers": {"A": "a\r\nB: c"}}, ["/headers/A"]),
    ({"signing": {"secret": "{{secret.a b}}"}}, ["/signing/secret"]),
    ({"signing": {"secret": "{{secret.missing}}"}}, ["/signing/secret"]),
]
