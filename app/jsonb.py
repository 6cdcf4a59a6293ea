"""Reading JSONB, which keeps a number as a decimal and writes 1e300 with three hundred digits."""

import json
from typing import Any

MAX_DIGITS = 38  # of an integer; longer ones overflow a double, which is what most readers hold numbers in


def loads(text: str) -> Any:
    """Parse JSON of the database; a longer integer than a request may hold was a floating-point number."""
    return _DECODER.decode(text)


def _integer(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else float(text)


_DECODER = json.JSONDecoder(parse_int=_integer)
