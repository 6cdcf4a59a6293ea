"""Messages of JSON Schema faults in the shape of the service's own messages: place, allowed values, remedy."""

from collections.abc import Callable, Sequence
from typing import Any

from jsonschema import ValidationError

from app.kernel.formats import compact_json
from app.kernel.suggestions import remedy

# Names and values of a schema that a message looks at; a comparison of names takes 20 µs.
_MAX_KNOWN = 100
_NOUNS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_WORDS: dict[str, Callable[[Any], str]] = {
    "const": lambda wanted: f"Must be {compact_json(wanted)}.",
    "enum": lambda wanted: f"Must be one of: {', '.join(map(compact_json, wanted[:_MAX_KNOWN]))}.",
    "exclusiveMaximum": "Must be below {}.".format,
    "exclusiveMinimum": "Must be above {}.".format,
    "maximum": "Must be at most {}.".format,
    "maxItems": "Must have at most {} items.".format,
    "maxLength": "Must have at most {} characters.".format,
    "minimum": "Must be at least {}.".format,
    "minItems": "Must have at least {} items.".format,
    "minLength": "Must have at least {} characters.".format,
    "multipleOf": "Must be a multiple of {}.".format,
    "pattern": "Must match the pattern {}.".format,
    "type": lambda wanted: f"Must be {_types(wanted)}.",
    "uniqueItems": lambda _wanted: "Must have no equal items.",
}


def place_and_words(fault: ValidationError) -> tuple[Sequence[str | int], str]:
    """Return the path of a fault in the input, and its message."""
    path, wanted = list(fault.absolute_path), fault.validator_value
    if fault.validator == "required":
        missing = next((name for name in wanted if fault.message.startswith(repr(name))), None)
        if missing is not None:
            return [*path, missing], "Required."
    if fault.validator == "additionalProperties" and wanted is False:
        known = fault.schema.get("properties", {}) if isinstance(fault.schema, dict) else {}
        return path, f"Unknown property.{remedy(path[-1], known) if len(known) <= _MAX_KNOWN else ''}"
    words = _WORDS.get(str(fault.validator))
    return path, f"{fault.message}." if words is None else words(wanted)


def _types(wanted: str | Sequence[str]) -> str:
    nouns = [_NOUNS.get(each, each) for each in ([wanted] if isinstance(wanted, str) else wanted)]
    return " or ".join(nouns)
