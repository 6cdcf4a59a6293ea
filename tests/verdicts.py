"""Verdicts of tests."""

from typing import Any

from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus


def success(output: dict[str, Any]) -> Verdict:
    """Return the verdict on a delivery with an expected answer."""
    return Verdict(ExecutionStatus.SUCCESS, output=output)
