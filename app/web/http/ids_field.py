"""Filter by ids: rows that a person has chosen, such as those with a ticked box."""

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields

from app.kernel.described_fields import described

MAX_IDS = 100
MAX_ID = 128


class ChosenIds(fields.Field[tuple[str, ...]]):
    """One id, or several separated by commas."""

    def __init__(self, data_key: str, of: str) -> None:
        pattern = f"^[^,]{{1,{MAX_ID}}}(,[^,]{{1,{MAX_ID}}}){{0,{MAX_IDS - 1}}}$"
        text = f"{of}: one id, or up to {MAX_IDS} separated by commas"
        super().__init__(data_key=data_key, **described(text, type="string", pattern=pattern))

    def _deserialize(
        self,
        value: Any,
        attr: str | None,  # noqa: ARG002
        data: Mapping[str, Any] | None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(value.split(","))) if isinstance(value, str) else ()
        if not 1 <= len(found) <= MAX_IDS or not all(1 <= len(each) <= MAX_ID for each in found):
            raise ValidationError(f"Must be an id, or up to {MAX_IDS} ids separated by commas.")
        return found
