"""Messages of marshmallow in the shape of the service's own messages: the allowed values of the field."""

import re

_WORDS = {
    "Field may not be null.": "Must not be null.",
    "Invalid input type.": "Must be an object.",
    "Missing data for required field.": "Required.",
    "Not a valid boolean.": "Must be true or false.",
    "Not a valid integer.": "Must be a whole number.",
    "Not a valid list.": "Must be a list.",
    "Not a valid mapping type.": "Must be an object.",
    "Not a valid number.": "Must be a number.",
    "Not a valid string.": "Must be a string.",
}
_FORMS = (
    (re.compile(r"Length must be between ([0-9]+) and ([0-9]+)\."), "Must have a length from {} to {}."),
    (re.compile(r"Shorter than minimum length ([0-9]+)\."), "Must have a length of at least {}."),
    (re.compile(r"Longer than maximum length ([0-9]+)\."), "Must have a length of at most {}."),
    (
        re.compile(r"Must be greater than or equal to (\S+) and less than or equal to (\S+)\."),
        "Must be from {} to {}.",
    ),
    (re.compile(r"Must be greater than or equal to (\S+)\."), "Must be at least {}."),
    (re.compile(r"Must be less than or equal to (\S+)\."), "Must be at most {}."),
)


def worded(message: str) -> str:
    """Return a message of marshmallow in own words; other messages are unchanged."""
    for form, own in _FORMS:
        if (found := form.fullmatch(message)) is not None:
            return own.format(*found.groups())
    return _WORDS.get(message, message)
