"""Answers of receivers as people read them: a text that is JSON as JSON, another text as it is; pure."""

import json
from typing import Any

from app.console.views.json_text import MAX_CHARACTERS, shown_json


def shown_answer(value: Any) -> str:
    """Write an answer, which is cut at a bound."""
    if not isinstance(value, str):
        return shown_json(value)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    if isinstance(parsed, dict | list):
        return shown_json(parsed)
    left_out = len(value) - MAX_CHARACTERS
    return value if left_out <= 0 else f"{value[:MAX_CHARACTERS]}\n… {left_out:,} more characters"
