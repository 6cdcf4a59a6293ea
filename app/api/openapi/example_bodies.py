"""What the examples of the OpenAPI document are made of: one small story, told in every request and answer."""

from collections.abc import Mapping
from typing import Any

from app.catalog.retry_policy import RetryPolicy

_JOB, _CRON_JOB = "job_8f3a6c1d2e4b", "job_c72f90ab13de"
_EXECUTION, _ATTEMPT = "exec_2b7c5d8e9f10", "att_51d0c4e7a2b3"
_AT, _LATER = "2026-03-15T10:00:00Z", "2026-03-15T18:00:00Z"
_INPUT = {"user_id": "u_abc", "order_id": "order-1234"}
_SUMMARY = {"user_id": "u_abc", "title": "Weekly Summary", "body": "Here is your weekly report"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string", "description": "Target user ID"},
        "order_id": {"type": "string", "description": "Associated order ID"},
    },
    "required": ["user_id"],
}

_CONFIGS: Mapping[str, dict[str, Any]] = {
    "HTTP": {
        "name": "email-service",
        "values": {"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"},
    },
    "KAFKA": {
        "name": "order-events",
        "values": {"bootstrap_servers": "kafka-1:9092,kafka-2:9092", "topic": "order.events.v1"},
    },
    "REDIS_STREAM": {
        "name": "notification-stream",
        "values": {
            "redis_url": "redis://redis-cluster:6379",
            "stream_name": "notifications:outbound",
            "max_stream_length": 100000,
        },
    },
}
_PAYLOAD_SPECS: Mapping[str, dict[str, Any]] = {
    "HTTP": {"name": "send-welcome-email-input", "schema": _SCHEMA},
    "KAFKA": {"name": "order-event-input", "schema": {"type": "object", "required": ["order_id", "event_type"]}},
    "REDIS_STREAM": {"name": "notification-input", "schema": {"type": "object", "required": ["user_id", "title"]}},
}

# The example of a field, by its name; a field that means something else by it gives its own in its metadata.
BY_NAME: Mapping[str, Any] = {
    "job_id": _JOB,
    "execution_id": _EXECUTION,
    "attempt_id": _ATTEMPT,
    "log_id": "log_07f1e2d3c4b5",
    "request_id": "req_9a8b7c6d5e4f",
    "worker_id": "wrk_6e5d4c3b2a19",
    "key_id": "5f0c1d2e3b4a6978",
    "name": "email-service",
    "endpoint": "send-welcome-email",
    "payload_spec": "send-welcome-email-input",
    "config": "email-service",
    "value": "sk-live-abc123",
    "values": {"api_base_url": "https://api.myapp.com", "sender": "noreply@myapp.com"},
    "schema": _SCHEMA,
    "idempotency_key": "order-1234-welcome-email",
    "input": _INPUT,
    "output": {"status_code": 202, "body": "accepted"},
    "error": {"type": "TIMEOUT", "message": "no answer within 5000 ms", "retryable": True},
    "message": "attempt 1 succeeded",
    "level": "INFO",
    "duration_ms": 87,
    "max_attempts": 3,
    "cron": "0 9 * * MON",
    "timezone": "Asia/Kolkata",
    "next_run_at": "2026-03-16T09:00:00+05:30",
    "cursor": None,
}

_RETRY = {"max_attempts": 3, "backoff": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 30000}
_HTTP = {
    "name": "send-welcome-email",
    "type": "HTTP",
    "payload_spec": "send-welcome-email-input",
    "config": "email-service",
    "spec": {
        "url": "{{config.api_base_url}}/emails/welcome",
        "method": "POST",
        "headers": {"Authorization": "Bearer {{secret.email_api_key}}", "Content-Type": "application/json"},
        "body_template": {"user_id": "{{input.user_id}}", "sender": "{{config.sender}}"},
        "timeout_ms": 5000,
        "expected_status_codes": [200, 201, 202, 204],
    },
    "retry_policy": _RETRY,
}
_SIGNED = {
    "name": "order-webhook",
    "type": "HTTP",
    "payload_spec": None,
    "config": None,
    "spec": {
        "url": "https://shop.example/webhooks/orders/{{input.order_id}}",
        "body_template": "{{input.event}}",
        "signing": {"secret": "{{secret.webhook_key}}", "previous_secret": "{{secret.webhook_key_before}}"},
    },
    "retry_policy": {"max_attempts": 5, "backoff": "custom", "delays_ms": [1000, 60000], "fail_on": [401, 410]},
}
_KAFKA = {
    "name": "publish-order-event",
    "type": "KAFKA",
    "payload_spec": "order-event-input",
    "config": "order-events",
    "spec": {
        "bootstrap_servers": "{{config.bootstrap_servers}}",
        "topic": "{{config.topic}}",
        "key_template": "{{input.order_id}}",
        "value_template": {"event_type": "{{input.event_type}}", "order_id": "{{input.order_id}}"},
        "headers": {"ce-type": "order.{{input.event_type}}", "ce-source": "task-executor"},
        "acks": "all",
        "timeout_ms": 10000,
    },
    "retry_policy": _RETRY,
}
_REDIS_STREAM = {
    "name": "push-notification",
    "type": "REDIS_STREAM",
    "payload_spec": "notification-input",
    "config": "notification-stream",
    "spec": {
        "redis_url": "{{config.redis_url}}",
        "stream": "{{config.stream_name}}",
        "fields_template": {"user_id": "{{input.user_id}}", "title": "{{input.title}}", "body": "{{input.body}}"},
        "max_len": "{{config.max_stream_length}}",
        "approximate_trimming": True,
        "timeout_ms": 3000,
    },
    "retry_policy": _RETRY,
}
_ENDPOINTS: Mapping[str, dict[str, Any]] = {
    "HTTP": _HTTP,
    "HTTP, signed": _SIGNED,
    "KAFKA": _KAFKA,
    "REDIS_STREAM": _REDIS_STREAM,
}
_NEW_JOBS: Mapping[str, dict[str, Any]] = {
    "IMMEDIATE": {
        "endpoint": "send-welcome-email",
        "trigger": "IMMEDIATE",
        "idempotency_key": "order-1234-welcome-email",
        "input": _INPUT,
    },
    "DELAYED": {
        "endpoint": "send-welcome-email",
        "trigger": "DELAYED",
        "idempotency_key": "order-1234-reminder",
        "run_at": _LATER,
        "input": _INPUT,
    },
    "CRON": {
        "endpoint": "push-notification",
        "trigger": "CRON",
        "cron": "0 9 * * MON",
        "timezone": "Asia/Kolkata",
        "starts_at": "2026-03-16T00:00:00Z",
        "ends_at": None,
        "input": _SUMMARY,
    },
    "INTERVAL": {
        "endpoint": "push-notification",
        "trigger": "INTERVAL",
        "every": "5m",
        "catch_up": "latest",
        "overlap": "skip",
        "input": _SUMMARY,
    },
}
_ACTIVE = {
    "endpoint_version": 1,
    "status": "ACTIVE",
    "version": 1,
    "created_at": _AT,
    "paused_at": None,
    "retired_at": None,
}
_REPEATING = {"previous_version_id": None, "replaced_by_id": None, "ends_at": None, "max_catch_up": None}
_ONE_SHOT = {"job_id": _JOB, "endpoint_type": "HTTP"} | _ACTIVE
_JOBS: Mapping[str, dict[str, Any]] = {
    "IMMEDIATE": _NEW_JOBS["IMMEDIATE"]
    | _ONE_SHOT
    | {"execution": {"execution_id": _EXECUTION, "status": "QUEUED", "created_at": _AT}},
    "DELAYED": _NEW_JOBS["DELAYED"]
    | _ONE_SHOT
    | {"execution": {"execution_id": _EXECUTION, "status": "PENDING", "created_at": _AT}},
    "CRON": _NEW_JOBS["CRON"]
    | _ACTIVE
    | _REPEATING
    | {"catch_up": "all", "overlap": "allow", "next_run_at": "2026-03-16T09:00:00+05:30"}
    | {"job_id": _CRON_JOB, "endpoint_type": "REDIS_STREAM"},
    "INTERVAL": _NEW_JOBS["INTERVAL"]
    | _ACTIVE
    | _REPEATING
    | {"fixed_delay": False, "starts_at": _AT, "next_run_at": "2026-03-15T10:05:00Z"}
    | {"job_id": "job_4d5e6f7a8b9c", "endpoint_type": "REDIS_STREAM"},
}
_BATCH_ERROR = {
    "code": "ENDPOINT_NOT_FOUND",
    "message": "There is no endpoint named 'send-farewell'.",
    "details": [],
    "retryable": False,
}

# Examples of whole bodies, by the name of their schema.
WHOLE: Mapping[str, Mapping[str, Any]] = {
    "NewConfigSchema": _CONFIGS,
    "NewPayloadSpecSchema": _PAYLOAD_SPECS,
    "NewSecretSchema": {
        "key of an API": {"name": "email_api_key", "value": "sk-live-abc123"},
        "key that signs": {"name": "webhook_key", "value": "whsec_bmV3IGtleSBvZiB0aGUgc2hvcCdzIHdlYmhvb2tz"},
        "the one before": {"name": "webhook_key_before", "value": "whsec_b2xkIGtleSBvZiB0aGUgc2hvcCdzIHdlYmhvb2tz"},
    },
    "NewEndpointSchema": _ENDPOINTS,
    "ChangedEndpointSchema": _ENDPOINTS,
    "EndpointSchema": {
        label: endpoint
        | {"retry_policy": RetryPolicy.from_json(endpoint["retry_policy"]).as_json()}
        | {"version": 1, "created_at": _AT, "updated_at": _AT}
        for label, endpoint in _ENDPOINTS.items()
    },
    "NewJobSchema": _NEW_JOBS,
    "JobSchema": _JOBS,
    "ChangedJobSchema": {
        "CRON": {"cron": "0 10 * * MON", "timezone": "Asia/Kolkata", "input": _SUMMARY},
        "INTERVAL": {"every": "10m", "ends_at": None},
    },
    "PatchedJobSchema": {"pause": {"status": "PAUSED"}, "CRON": {"cron": "0 10 * * MON"}},
    "BatchSchema": {"example": {"jobs": [_NEW_JOBS["IMMEDIATE"], _NEW_JOBS["DELAYED"]]}},
    "BatchResultSchema": {
        "example": {"items": [{"status": 201, "job": _JOBS["IMMEDIATE"]}, {"status": 404, "error": _BATCH_ERROR}]}
    },
}
