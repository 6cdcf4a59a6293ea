"""Field of an input in a form: its kind, its name, and its parts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

ROOT = "input"
"""Name of the field of a whole input. The field of a part has this name and the JSON pointer of the part."""
COUNT = "items:"
"""Prefix of the field with the number of items of a list, before the name of the list."""
INTEGER_OR_STRING, STRING_OR_LIST = "integer or string", "string or list"
"""Types of values that a field tells apart by what is typed."""
LONG_TEXT = 10_000
"""Characters; a text that may be longer has a field of several lines."""


class InputKind(StrEnum):
    """Kind of a field; `lines` is a list of scalars, `pairs` an object of strings, each one a line."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    LINES = "lines"
    PAIRS = "pairs"
    JSON = "json"
    GROUP = "group"
    ITEMS = "items"


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, and its parts if it is a group or a list.

    Attributes:
        pointer: JSON pointer in the input; empty for the whole input.
        note: Description, and bounds in words.
        choices: Values of a choice, as JSON.
        scalar: JSON type of the value, or of the items of `lines`; or INTEGER_OR_STRING, or
            STRING_OR_LIST: a string as one line, a list as several.
        root: Name of the field of the whole value.
        is_long: Whether a text may have several lines.
    """

    pointer: str
    label: str
    kind: InputKind
    is_required: bool = False
    note: str = ""
    text: str = ""
    choices: Sequence[str] = ()
    scalar: str = "string"
    input_type: str = "text"
    root: str = ROOT
    is_long: bool = False
    parts: Sequence["FormField"] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return f"{self.root}{self.pointer}"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return each choice with its text; the text of a string has no quotes."""
        values = [(choice, json.loads(choice)) for choice in self.choices]
        return [(choice, value if isinstance(value, str) else choice) for choice, value in values]

    @property
    def counter(self) -> str:
        """Return the name of the field with the number of items."""
        return f"{COUNT}{self.name}"


def every_field(form: FormField) -> Iterator[FormField]:
    yield form
    for part in form.parts:
        yield from every_field(part)
