"""Suggestions in messages for misspelt names: one sentence for fields, events and endpoints."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from marshmallow import RAISE, Schema, ValidationError

MAX_SUGGESTED = 20  # unknown fields of an object with a suggestion; an answer names no more
_MAX_CHARACTERS = 64  # of a name; the comparison takes quadratic time
_MAX_LISTED = 170  # characters of a list of names


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name nearest to `name`, or an empty text.

    `known` has only names that the reader of the message may read.
    """
    if not isinstance(name, str) or len(name) > _MAX_CHARACTERS:
        return ""
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {str(near[0])!r}?" if near else ""


def remedy(name: object, known: Iterable[str]) -> str:
    """Return the suggestion of `did_you_mean`, or else all known names if they are few."""
    names = sorted(known)
    near, listed = did_you_mean(name, names), ", ".join(names)
    return near or (f" Known: {listed}." if names and len(listed) <= _MAX_LISTED else "")


class StrictSchema(Schema):
    """Schema that refuses unknown fields and suggests the known field that was probably meant."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {}  # remedies of unknown fields, shown instead of a suggestion

    class Meta:
        unknown = RAISE

    def handle_error(self, error: ValidationError, data: Any, *, many: bool, **_options: Any) -> None:  # noqa: ARG002
        messages: Any = error.messages
        known = {field.data_key or name for name, field in self.load_fields.items()}
        unknown = (name for name in messages if messages[name] == [self.error_messages["unknown"]])
        for name, _ in zip(list(unknown), range(MAX_SUGGESTED), strict=False):
            found = f" {self.ELSEWHERE[name]}" if name in self.ELSEWHERE else remedy(name, known)
            messages[name] = [f"{self.error_messages['unknown']}{found}"]
