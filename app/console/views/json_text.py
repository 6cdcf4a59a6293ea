"""JSON for people: indented, in the order as stored, and cut at a bound; and JSON that a person typed."""

import json
from typing import Any

from app.kernel.errors import InvalidRequestError
from app.web.http.body import parse_json

MAX_CHARACTERS = 50_000


def indented(value: Any) -> str:
    """Write all of a value over several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def shown_json(value: Any) -> str:
    """Write a value over several lines; a long text is cut."""
    return shown_text(indented(value))


def shown_text(text: str) -> str:
    """Return a text; a long one ends with the number of characters that are left out."""
    left_out = len(text) - MAX_CHARACTERS
    return text if left_out <= 0 else f"{text[:MAX_CHARACTERS]}\n… {left_out:,} more characters"


def parsed_json(text: str) -> Any:
    """Parse a typed text as strictly as the body of a request; raises ValueError with words for its field."""
    try:
        return parse_json(text)
    except InvalidRequestError as error:
        raise ValueError(error.message.replace("The body", "The text", 1)) from None
