"""Attempts as a page shows them: answer, exception of an actor, and whether the outcome is known; pure."""

from typing import Any

from app.console.views.answer_text import shown_answer
from app.console.views.json_text import shown_text
from app.queue.executions.execution_records import AttemptRecord

Values = dict[str, Any]
"""Variables of a template."""


def is_uncertain(tried: AttemptRecord) -> bool:
    error: dict[str, Any] = tried.error or {}
    return tried.status.value == "FAILED" and str(error.get("may_have_been_delivered", True)).lower() == "true"


def shown_attempt(tried: AttemptRecord) -> Values:
    return {"tried": tried, "answer": _answer(tried), "uncertain": is_uncertain(tried), **_raised(tried)}


def hidden_attempt(tried: AttemptRecord) -> Values:
    """Return what is shown of an attempt while answers are closed."""
    return shown_attempt(tried) | {"answer": "", "causes": [], "traceback": ""}


def _raised(tried: AttemptRecord) -> Values:
    """Return category, causes and traceback of an exception of an actor; empty without an exception."""
    category, causes, traceback = ((tried.error or {}).get(name) for name in ("category", "causes", "traceback"))
    return {
        "category": category if isinstance(category, str) else "",
        "causes": [str(each) for each in causes] if isinstance(causes, list) else [],
        "traceback": shown_text(traceback) if isinstance(traceback, str) else "",
    }


def _answer(tried: AttemptRecord) -> str:
    """Return the answer of the receiver as text; empty if none is stored."""
    outcome = tried.output if tried.output is not None else tried.error or {}
    body = outcome.get("body", outcome if tried.output is not None else "")
    return shown_answer(body) if body not in ("", None) else ""
