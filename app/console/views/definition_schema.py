"""Schemas of the parts of a definition, made to be read in a form."""

import json
from collections.abc import Mapping
from typing import Any

_UNSAID = frozenset({"default", "pattern"})
_BY_NAME = frozenset({"properties", "schemas"})


def readable(schema: Any) -> Any:
    """Return a schema whose descriptions name the defaults: an empty field has them.

    Patterns and marks of code are left out; the check of a pattern says in words what is wrong.
    """
    if not isinstance(schema, Mapping):
        return [readable(each) for each in schema] if isinstance(schema, list) else schema
    shown = {name: readable(part) for name, part in schema.items() if name not in _UNSAID}
    # Their keys are names, not keywords.
    for name in _BY_NAME & schema.keys():
        shown[name] = {key: readable(part) for key, part in schema[name].items()}
    if shown.get("minLength") == 1:
        del shown["minLength"]  # an empty field is left out
    described = schema.get("description", "")
    words = [described.replace("`", "").rstrip(".")] if isinstance(described, str) else []
    if "default" in schema and schema["default"] not in ({}, None):
        default = schema["default"]
        words.append(f"Empty: {default if isinstance(default, str) else json.dumps(default)}")
    return shown | ({"description": ". ".join(filter(None, words))} if any(words) else {})
