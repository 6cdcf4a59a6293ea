"""Validator of a payload spec: the fast path first, and JSON Schema for inputs that the fast path does not accept."""

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.catalog.validation_fast_path import accepts
from app.kernel.errors import Detail

if TYPE_CHECKING:
    from app.catalog.validation import Validator


class PayloadValidator:
    """Stored schema; safe to share between threads."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def faults(self, instance: Any) -> list[Detail]:
        """Return the first faults of an input; empty if it is valid."""
        return [] if accepts(self._schema, instance) else self._validator.faults(instance)

    @functools.cached_property
    def _validator(self) -> "Validator":
        # Loads 30 modules in 45 ms of CPU time. Few workers and schedulers need them.
        from app.catalog.validation import Validator  # noqa: PLC0415

        return Validator(self._schema)


def compiled(schema: Mapping[str, Any]) -> PayloadValidator:
    """Return the validator of a stored schema; the newest 512 are cached."""
    return _compiled(json.dumps(schema, sort_keys=True))


@functools.lru_cache(maxsize=512)
def _compiled(schema: str) -> PayloadValidator:
    return PayloadValidator(json.loads(schema))
