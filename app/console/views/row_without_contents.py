"""Values of API answers without inputs and answers of receivers; pure."""

from collections.abc import Mapping
from typing import Any

_CONTENTS = frozenset({"input", "output", "body", "causes", "traceback"})
_CHOSEN = frozenset({"labels"})  # names of these values are free, so `input` may be a label


def without_contents(shaped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its contents, also in its errors."""
    return {
        name: without_contents(value) if isinstance(value, Mapping) and name not in _CHOSEN else value
        for name, value in shaped.items()
        if name not in _CONTENTS
    }
