"""Answers of receivers as people read them: a text that is JSON as JSON, another text as it is; pure."""

import json
from typing import Any

from app.console.views.json_text import shown_json, shown_text


def shown_answer(value: Any) -> str:
    """Write an answer, which is cut at a bound."""
    if not isinstance(value, str):
        return shown_json(value)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    return shown_json(parsed) if isinstance(parsed, dict | list) else shown_text(value)
