"""Outcome: input of a callback. The payload spec of the endpoint called back must accept it."""

from collections.abc import Mapping
from typing import Any

from schema.states import FINAL, CallbackEvent, EndpointType, ExecutionStatus

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_INSTANT = {"type": "string", "format": "date-time"}
_E = CallbackEvent


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _described(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "description": description}


_PROPERTIES: dict[str, Any] = {
    "event": _described("event of the callback", {"type": "string", "enum": [event.value for event in _E]}),
    "job_id": _TEXT,
    "job_name": _or_null(_TEXT),
    "labels": _described("labels of the job", {"type": "object", "additionalProperties": _TEXT}),
    "execution_id": _described("id of the execution; equal for all its attempts", _TEXT),
    "endpoint": _TEXT,
    "endpoint_type": {"type": "string", "enum": [type_.value for type_ in EndpointType]},
    "endpoint_version": _COUNT,
    "status": _described(
        "state of the execution; RETRYING: an attempt failed and another attempt follows",
        {
            "type": "string",
            "enum": [status.value for status in ExecutionStatus if status in {ExecutionStatus.RETRYING, *FINAL}],
        },
    ),
    "attempt": _described("number of the last attempt; 0 without an attempt", _COUNT),
    "max_attempts": _COUNT,
    "scheduled_at": _INSTANT,
    "started_at": _described("start of the last attempt", _or_null(_INSTANT)),
    "ended_at": _INSTANT,
    "duration_ms": _or_null(_COUNT),
    "reason": _described("reason of an end without an attempt", _or_null(_TEXT)),
    "output": _described("output as in GET /executions/{execution_id}", _or_null({"type": "object"})),
    "error": _described("error of the last attempt", _or_null({"type": "object"})),
}
OUTCOME_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Outcome",
    "description": "Outcome of an execution, or of one of its attempts.",
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
}
FIELDS = frozenset(_PROPERTIES)
"""Names of the fields; every outcome has all of them, some null."""


def samples(event: CallbackEvent) -> list[dict[str, Any]]:
    if event is _E.ON_SUCCESS:
        return [_sample(event, "SUCCESS"), _sample(event, "SUCCESS") | _UNNAMED]
    if event is _E.ON_FAILURE:
        return [_sample(event, "FAILED"), _sample(event, "FAILED") | _UNNAMED | _WITHOUT_ATTEMPT]
    return [_sample(event, status) for status in ("RETRYING", "FAILED")]


_UNNAMED: dict[str, Any] = {"job_name": None, "labels": {}}
_WITHOUT_ATTEMPT: dict[str, Any] = {
    "attempt": 0,
    "started_at": None,
    "duration_ms": None,
    "reason": "EXPIRED",
    "output": None,
    "error": None,
}


def _sample(event: CallbackEvent, status: str) -> dict[str, Any]:
    succeeded = event is _E.ON_SUCCESS
    error = {
        "type": "HTTP_ERROR",
        "message": "The receiver answered 503.",
        "status_code": 503,
        "retryable": status == "RETRYING",
        "may_have_been_delivered": False,
    }
    return {
        "event": event.value,
        "job_id": "job_01",
        "job_name": "Daily report",
        "labels": {"team": "billing"},
        "execution_id": "exec_01",
        "endpoint": "report",
        "endpoint_type": EndpointType.HTTP.value,
        "endpoint_version": 1,
        "status": status,
        "attempt": 1,
        "max_attempts": 3,
        "scheduled_at": "2030-01-31T09:00:00Z",
        "started_at": "2030-01-31T09:00:00.004Z",
        "ended_at": "2030-01-31T09:00:00.120Z",
        "duration_ms": 116,
        "reason": None,
        "output": {"status_code": 200, "body": "ok"} if succeeded else None,
        "error": None if succeeded else error,
    }
