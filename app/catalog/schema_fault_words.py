"""Messages of JSON Schema faults in the shape of the service's own messages: place, allowed values, remedy."""

from collections.abc import Sequence
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
_WORDS = {
    "const": "Must be {}.",
    "enum": "Must be one of: {}.",
    "exclusiveMaximum": "Must be below {}.",
    "exclusiveMinimum": "Must be above {}.",
    "maximum": "Must be at most {}.",
    "maxItems": "Must have at most {} items.",
    "maxLength": "Must have at most {} characters.",
    "minimum": "Must be at least {}.",
    "minItems": "Must have at least {} items.",
    "minLength": "Must have at least {} characters.",
    "multipleOf": "Must be a multiple of {}.",
    "pattern": "Must match the pattern {}.",
    "type": "Must be {}.",
    "uniqueItems": "Must have no equal items.",
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
    return path, f"{fault.message}." if words is None else words.format(_shown(str(fault.validator), wanted))


def _shown(keyword: str, wanted: Any) -> Any:
    """Return the value of a keyword as its message shows it."""
    if keyword == "const":
        return compact_json(wanted)
    if keyword == "enum":
        return ", ".join(map(compact_json, wanted[:_MAX_KNOWN]))
    if keyword == "type":
        return " or ".join(_NOUNS.get(each, each) for each in ([wanted] if isinstance(wanted, str) else wanted))
    return wanted
