"""Defaults of the service for missing fields of a body.

Written by `make client` from the OpenAPI document; do not edit.
"""

from typing import Any

DEFAULTS: dict[str, dict[str, Any]] = {
    "HttpSpec": {"method": "POST", "headers": {}, "timeout_ms": 30000, "expected_status_codes": [200, 201, 202, 204]},
    "KafkaSpec": {"headers": {}, "properties": {}, "acks": "all", "timeout_ms": 10000},
    "RedisStreamSpec": {"approximate_trimming": True, "metadata": False, "timeout_ms": 3000},
    "NotificationSpec": {"title": "{{input.title}}", "body": "{{input.body}}", "timeout_ms": 30000},
    "WorkflowSpec": {"timeout_ms": 30000},
    "ActorSpec": {"queue": "default", "arguments": "{{input}}", "timeout_ms": 630000, "max_lost": 3},
    "RetryPolicySpec": {"max_attempts": 1, "backoff": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 60000},
    "NewEndpoint": {"keep_response": "always"},
    "ChangedEndpoint": {"keep_response": "always"},
    "CronPreviewQuestion": {"count": 10},
    "SimulationQuestion": {"length": "1d", "takes": "0s"},
    "NewRedrive": {"all": False, "rate": 10},
    "NewBulkOperation": {"all": False, "rate": 100},
}
