"""Log line of an ended attempt as fields: ids, own names and numbers."""

from typing import Any

from app.kernel.tracing.context import trace_of
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim


def fields_of(completion: Completion) -> dict[str, Any]:
    """Return the fields of the line for TE_LOG_FORMAT=json, with the trace that the receiver has."""
    claim, verdict = completion.claim, completion.verdict
    told = verdict.output or verdict.error or {}
    fields = {
        **ids_of(claim),
        "endpoint": claim.endpoint,
        "endpoint_type": claim.endpoint_type,
        "queue": claim.queue,
        "outcome": verdict.status.value,
        "error_type": told.get("type"),
        "status_code": told.get("status_code"),
        "duration_ms": completion.duration_ms,
        "span_id": f"{completion.span.span_id:016x}" if completion.span is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def ids_of(claim: Claim) -> dict[str, Any]:
    """Return the ids of any line about an attempt."""
    return {
        "execution_id": claim.execution_id,
        "job_id": claim.job_id,
        "attempt": claim.attempt,
        "worker_id": claim.worker_id,
        "trace_id": trace_of(claim.execution_id, claim.trace_context).trace_id,
    }
