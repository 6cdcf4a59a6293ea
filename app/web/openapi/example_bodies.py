"""Example values of the OpenAPI document, consistent across all requests and answers."""

from collections.abc import Mapping
from typing import Any

from app.catalog.retry_policy import RetryPolicy
from app.catalog.specs import TRANSPORTS
from app.catalog.specs.transport import Example
from schema.states import EndpointType, KeepResponse

_JOB, _CRON_JOB = "job_8f3a6c1d2e4b", "job_c72f90ab13de"
_EXECUTION, _ATTEMPT = "exec_2b7c5d8e9f10", "att_51d0c4e7a2b3"
_AT, _LATER = "2026-03-15T10:00:00Z", "2026-03-15T18:00:00Z"
_INPUT = {"user_id": "u_abc", "order_id": "order-1234"}
_LABELS = {"team": "growth"}
_SUMMARY = {"user_id": "u_abc", "title": "Weekly Summary", "body": "Here is your weekly report"}
_EMAIL = TRANSPORTS[EndpointType.HTTP].examples[0]
_EMAIL_CONFIG, _EMAIL_INPUT = _EMAIL.config or {}, _EMAIL.payload_spec or {}

# Examples of the transports by their labels.
_LABELLED = {
    f"{endpoint_type}, {example.variant}" if example.variant else str(endpoint_type): (endpoint_type, example)
    for endpoint_type, transport in TRANSPORTS.items()
    for example in transport.examples
}


def _endpoint(endpoint_type: EndpointType, example: Example) -> dict[str, Any]:
    return {
        "name": example.name,
        "type": str(endpoint_type),
        "payload_spec": example.payload_spec and example.payload_spec["name"],
        "config": example.config and example.config["name"],
        "spec": example.spec,
        "retry_policy": example.retry_policy,
    }


# Examples of fields by name; a field with another meaning has an example in its metadata.
BY_NAME: Mapping[str, Any] = {
    "job_id": _JOB,
    "execution_id": _EXECUTION,
    "attempt_id": _ATTEMPT,
    "log_id": "log_07f1e2d3c4b5",
    "letter_id": _ATTEMPT,
    "group_id": "grp_7a6b5c4d3e2f",
    "redrive_id": "rdr_1f2e3d4c5b6a",
    "operation_id": "bop_3c4d5e6f7a8b",
    "request_id": "req_9a8b7c6d5e4f",
    "worker_id": "wrk_6e5d4c3b2a19",
    "workflow_id": "wf_2d1c0b9a8f7e",
    "node": "notify",
    "key_id": "5f0c1d2e3b4a6978",
    "name": _EMAIL_CONFIG["name"],
    "endpoint": _EMAIL.name,
    "version": 3,
    "target": "https:api.example.com:443",
    "queue": "bulk",
    "payload_spec": _EMAIL_INPUT["name"],
    "config": _EMAIL_CONFIG["name"],
    "value": "sk-live-abc123",
    "values": _EMAIL_CONFIG["values"],
    "schema": _EMAIL_INPUT["schema"],
    "idempotency_key": "order-1234-welcome-email",
    "input": _INPUT,
    "output": {"status_code": 202, "body": "accepted"},
    "error": {"type": "TIMEOUT", "message": "no answer within 5000 ms", "retryable": True},
    "last_error": None,
    "message": "attempt 1 succeeded",
    "level": "INFO",
    "duration_ms": 87,
    "max_attempts": 3,
    "cron": "0 9 * * MON",
    "timezone": "Asia/Kolkata",
    "next_run_at": "2026-03-16T09:00:00+05:30",
    "cursor": None,
    "labels": _LABELS,
}

_ENDPOINTS = {label: _endpoint(*example) for label, example in _LABELLED.items()}
_NEW_JOBS: Mapping[str, dict[str, Any]] = {
    "IMMEDIATE": {
        "endpoint": _EMAIL.name,
        "trigger": "IMMEDIATE",
        "idempotency_key": "order-1234-welcome-email",
        "input": _INPUT,
    },
    "DELAYED": {
        "endpoint": _EMAIL.name,
        "trigger": "DELAYED",
        "idempotency_key": "order-1234-reminder",
        "run_at": _LATER,
        "input": _INPUT,
    },
    "CRON": {
        "endpoint": "push-notification",
        "trigger": "CRON",
        "name": "Weekly summary",
        "labels": _LABELS,
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
_ACTIVE: dict[str, Any] = {
    "name": None,
    "labels": {},
    "queue": None,
    "priority": None,
    "limit_key": None,
    "callbacks": None,
    "callback_of": None,
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
    "CRON": _ACTIVE
    | _NEW_JOBS["CRON"]
    | _REPEATING
    | {"catch_up": "all", "overlap": "allow", "next_run_at": "2026-03-16T09:00:00+05:30"}
    | {"job_id": _CRON_JOB, "endpoint_type": "REDIS_STREAM"},
    "INTERVAL": _NEW_JOBS["INTERVAL"]
    | _ACTIVE
    | _REPEATING
    | {"fixed_delay": False, "starts_at": _AT, "next_run_at": "2026-03-15T10:05:00Z"}
    | {"job_id": "job_4d5e6f7a8b9c", "endpoint_type": "REDIS_STREAM"},
}
_RESULT = {
    "execution_id": _EXECUTION,
    "job_id": _JOB,
    "endpoint": _NEW_JOBS["IMMEDIATE"]["endpoint"],
    "status": "SUCCESS",
    "attempt_count": 1,
    "completed_at": _AT,
    "duration_ms": 87,
    "kept_until": None,
    "output": {"status_code": 200, "body": '{"queued": true}'},
    "error": None,
}
_BATCH_ERROR = {
    "code": "ENDPOINT_NOT_FOUND",
    "message": "There is no endpoint named 'send-farewell'.",
    "details": [],
    "retryable": False,
}

_WORKFLOW = {
    "name": "welcome",
    "idempotency_key": "welcome-1234",
    "input": _INPUT,
    "nodes": [
        {"name": "mail", "endpoint": _EMAIL.name, "input": {"user_id": "{{workflow.input.user_id}}"}},
        {
            "name": "notify",
            "endpoint": "push-notification",
            "after": ["mail"],
            "for_each": ["phone", "tablet"],
            "input": {"device": "{{item}}"},
            "tolerate": {"count": 1},
        },
    ],
}

# Examples of whole bodies, by the name of their schema.
WHOLE: Mapping[str, Mapping[str, Any]] = {
    "NewConfigSchema": {label: example.config for label, (_, example) in _LABELLED.items() if example.config},
    "NewPayloadSpecSchema": {
        label: example.payload_spec for label, (_, example) in _LABELLED.items() if example.payload_spec
    },
    "NewSecretSchema": {
        "API key": {"name": "email_api_key", "value": "sk-live-abc123"},
        "SMTP password": {"name": "smtp_password", "value": "correct horse battery staple"},
        "chat token": {"name": "slack_token", "value": "xoxb-1234-abcdef"},
        "signing key": {"name": "webhook_key", "value": "whsec_bmV3IGtleSBvZiB0aGUgc2hvcCdzIHdlYmhvb2tz"},
        "previous signing key": {
            "name": "webhook_key_before",
            "value": "whsec_b2xkIGtleSBvZiB0aGUgc2hvcCdzIHdlYmhvb2tz",
        },
    },
    "NewRedriveSchema": {
        "of an endpoint": {"wanted": {"endpoint": _EMAIL.name, "failed_after": _AT}, "rate": 20},
        "of a tenant": {"wanted": {"labels": _LABELS}, "to_endpoint": _EMAIL.name},
        "everything": {"wanted": {}, "all": True},
    },
    "NewBulkOperationSchema": {
        "cancel": {"action": "cancel", "wanted": {"labels": _LABELS}, "if_running": "request"},
        "retry": {"action": "retry", "wanted": {"endpoint": _EMAIL.name, "created_after": _AT}, "rate": 50},
        "reschedule": {"action": "reschedule", "wanted": {"queue": "bulk"}, "run_at": _LATER, "spread_seconds": 600},
        "archive": {"action": "archive", "wanted": {"labels": _LABELS}, "note": "The customer was deleted."},
        "pause": {"action": "pause", "wanted": {"labels": _LABELS}},
    },
    "NewEndpointSchema": _ENDPOINTS,
    "ChangedEndpointSchema": _ENDPOINTS,
    "EndpointSchema": {
        label: endpoint
        | {"retry_policy": RetryPolicy.from_json(endpoint["retry_policy"]).as_json()}
        | {"keep_response": str(KeepResponse.ALWAYS), "version": 1, "created_at": _AT, "updated_at": _AT}
        | {"queue": None, "queue_in_effect": endpoint["type"].lower(), "priority": 128}
        | {
            "limits": None,
            "breaker": None,
            "result_retention": None,
            "callbacks": None,
            "paused_at": None,
            "paused_by": None,
        }
        for label, endpoint in _ENDPOINTS.items()
    },
    "EndpointVersionSchema": {
        label: endpoint
        | {"version": 3, "secrets": [], "keep_response": str(KeepResponse.ALWAYS), "callbacks": None}
        | {"actor": "deploy-bot", "created_at": _AT}
        for label, endpoint in _ENDPOINTS.items()
    },
    "FlowSchema": {
        "limits": {
            "limits": {
                "max_in_flight": 20,
                "rate": {"count": 100, "per": "1s", "burst": 20},
                "per_key": {"key": "{{input.user_id}}", "max_in_flight": 2},
            }
        },
        "queue and priority": {"queue": "bulk", "priority": 64},
        "no breaker": {"breaker": "off"},
    },
    "NewJobSchema": _NEW_JOBS,
    "JobSchema": _JOBS,
    "CreatedJobSchema": {**_JOBS, "with its result": _JOBS["IMMEDIATE"] | {"status": "RETIRED", "result": _RESULT}},
    "ResultSchema": {"example": _RESULT},
    "ChangedJobSchema": {
        "CRON": {"cron": "0 10 * * MON", "timezone": "Asia/Kolkata", "input": _SUMMARY},
        "INTERVAL": {"every": "10m", "ends_at": None},
    },
    "PatchedJobSchema": {"pause": {"status": "PAUSED"}, "CRON": {"cron": "0 10 * * MON"}},
    "NewWorkflowSchema": {"example": _WORKFLOW},
    "BatchSchema": {"example": {"jobs": [_NEW_JOBS["IMMEDIATE"], _NEW_JOBS["DELAYED"]]}},
    "BatchResultSchema": {
        "example": {"items": [{"status": 201, "job": _JOBS["IMMEDIATE"]}, {"status": 404, "error": _BATCH_ERROR}]}
    },
}
