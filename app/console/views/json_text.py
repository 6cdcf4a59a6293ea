"""JSON for people: indented, in the order as stored, and cut at a bound."""

import json
from typing import Any

MAX_CHARACTERS = 50_000


def shown_json(value: Any) -> str:
    """Write a value over several lines; a long text ends with the number of characters that are left out."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    left_out = len(text) - MAX_CHARACTERS
    return text if left_out <= 0 else f"{text[:MAX_CHARACTERS]}\n… {left_out:,} more characters"
