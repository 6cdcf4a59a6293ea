"""Values of API answers without inputs and answers of receivers; pure."""

from collections.abc import Mapping
from typing import Any

_CONTENTS = frozenset({"input", "output", "body", "causes", "traceback"})


def without_contents(shaped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its contents, also without those in its errors."""
    return {
        name: without_contents(value) if isinstance(value, Mapping) else value
        for name, value in shaped.items()
        if name not in _CONTENTS
    }
