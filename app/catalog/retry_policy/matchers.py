"""Matchers of a retry policy, for errors and answers.

A matcher is an HTTP status, a class of statuses ("5xx"), a type of error, or a value in the JSON of an answer. Only the
last kind also matches successful attempts, and then refuses their answers.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from marshmallow import ValidationError, fields, validate

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.spec_fields import DescribedValue
from app.kernel.described_fields import described
from app.kernel.formats import unescaped
from app.kernel.suggestions import MAX_SUGGESTED, remedy
from schema.inline_bounds import JSON_POINTER, MAX_MATCHED_CHARACTERS, MAX_MATCHED_VALUES, MAX_MATCHERS

# Types of errors that are retried by default: the types of each transport, and the types of the service.
_OF_TRANSPORTS = [error for transport in TRANSPORTS.values() for error in transport.errors]
RETRIED_ERRORS = tuple(dict.fromkeys([*_OF_TRANSPORTS, "INTERNAL_ERROR", "WORKER_LOST", "STUCK"]))

_CLASS = re.compile(r"^[1-5]xx$")
_INDEX = re.compile(r"0|[1-9][0-9]*")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class InAnswer:
    """Matcher of the JSON of an answer: matches if the value at `path` is one of `values`."""

    path: tuple[str, ...]
    values: frozenset[tuple[bool, Any]]
    status: int | str | None  # of the answer; None for any
    given: Mapping[str, Any] = field(compare=False)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "InAnswer":
        parts = given["pointer"].split("/")[1:]
        path = tuple(map(unescaped, parts))
        values = given["in"] if "in" in given else [given["equals"]]
        return cls(path, frozenset(map(_comparable, values)), given.get("status"), given)


Matcher = int | str | InAnswer


def read_list(stored: Sequence[Any]) -> tuple[Matcher, ...]:
    """Read a stored list of matchers or delays; raises ValueError for an invalid matcher."""
    try:
        return tuple(InAnswer.from_json(item) if isinstance(item, Mapping) else item for item in stored)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("not a list of matchers") from error


def shown_list(matchers: Sequence[Matcher]) -> list[Any]:
    return [dict(matcher.given) if isinstance(matcher, InAnswer) else matcher for matcher in matchers]


class AttemptOutcome:
    """Result of an attempt for matchers: the type of its error, if any, and the answer, if any."""

    def __init__(self, error_type: str | None, status: int | None, body: str | None) -> None:
        self._error_type = error_type
        self._status = status
        self._body = body

    def is_named_by(self, matchers: Sequence[Matcher]) -> bool:
        return any(self._fits(matcher) for matcher in matchers)

    def _fits(self, matcher: Matcher) -> bool:
        if isinstance(matcher, InAnswer):
            has_status = matcher.status is None or self._has_status(matcher.status)
            return has_status and _comparable(self._at(matcher.path)) in matcher.values
        return self._error_type is not None and (matcher == self._error_type or self._has_status(matcher))

    def _has_status(self, wanted: int | str) -> bool:
        if self._status is None:
            return False
        return self._status == wanted if isinstance(wanted, int) else f"{self._status // 100}xx" == wanted

    @cached_property
    def _document(self) -> Any:
        try:
            return _ABSENT if self._body is None else json.loads(self._body, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return _ABSENT

    def _at(self, path: Sequence[str]) -> Any:
        value = self._document
        for part in path:
            if isinstance(value, dict):
                value = value.get(part, _ABSENT)
            elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                return _ABSENT
        return value


def matchers_field(description: str) -> fields.List[Any]:
    item = DescribedValue(_check, _SCHEMA)
    return fields.List(item, validate=validate.Length(max=MAX_MATCHERS), **described(description))


def _comparable(value: Any) -> tuple[bool, Any]:
    """Return a key that is equal for equal JSON values: 1 equals 1.0, but not true."""
    return isinstance(value, bool), value if value is None or isinstance(value, int | float | str) else _ABSENT


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _is_status(value: Any) -> bool:
    """Return whether a value is an HTTP status or a class of them."""
    if isinstance(value, str):
        return _CLASS.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_MATCHED_CHARACTERS
    return value is None or isinstance(value, int | float)


def _check(value: Any) -> None:
    if isinstance(value, Mapping):
        _check_in_answer(value)
    elif not (_is_status(value) or (isinstance(value, str) and value in RETRIED_ERRORS)):
        raise ValidationError(
            "Must be an HTTP status from 100 to 599, a class of statuses such as 5xx, "
            f"one of {', '.join(RETRIED_ERRORS)}, or an object with `pointer` and either `equals` or `in`."
        )


def _check_in_answer(value: Mapping[str, Any]) -> None:
    known = {"pointer", "equals", "in", "status"}
    unknown = [str(name) for name in value if name not in known][:MAX_SUGGESTED]
    faults = {name: f"Unknown field.{remedy(name, known)}" for name in unknown}
    pointer = value.get("pointer")
    if not isinstance(pointer, str) or len(pointer) > MAX_MATCHED_CHARACTERS or not JSON_POINTER.fullmatch(pointer):
        faults["pointer"] = f"Must be a JSON pointer (RFC 6901) of at most {MAX_MATCHED_CHARACTERS} characters."
    if ("equals" in value) == ("in" in value):
        faults["equals"] = "Must be given if `in` is not, and only then."
    if "equals" in value and not _is_value(value["equals"]):
        faults["equals"] = (
            f"Must be null, true, false, a number, or a string of at most {MAX_MATCHED_CHARACTERS} characters."
        )
    among = value.get("in", [None])
    if not (isinstance(among, list) and 1 <= len(among) <= MAX_MATCHED_VALUES and all(map(_is_value, among))):
        faults["in"] = f"Must be a list of 1 to {MAX_MATCHED_VALUES} values that `equals` allows."
    if "status" in value and not _is_status(value["status"]):
        faults["status"] = "Must be an HTTP status from 100 to 599, or a class of statuses such as 5xx."
    if faults:
        raise ValidationError({name: [fault] for name, fault in faults.items()})


_STATUS_SCHEMA = {"type": "integer", "minimum": 100, "maximum": 599}
_CLASS_SCHEMA = {"type": "string", "pattern": _CLASS.pattern}
_VALUE_SCHEMA = {"type": ["string", "number", "boolean", "null"], "maxLength": MAX_MATCHED_CHARACTERS}
_SCHEMA = {
    "anyOf": [
        _STATUS_SCHEMA,
        _CLASS_SCHEMA,
        {"type": "string", "enum": list(RETRIED_ERRORS)},
        {
            "type": "object",
            "properties": {
                "pointer": {"type": "string", "maxLength": MAX_MATCHED_CHARACTERS, "pattern": JSON_POINTER.pattern},
                "equals": _VALUE_SCHEMA,
                "in": {"type": "array", "minItems": 1, "maxItems": MAX_MATCHED_VALUES, "items": _VALUE_SCHEMA},
                "status": {"anyOf": [_STATUS_SCHEMA, _CLASS_SCHEMA]},
            },
            "required": ["pointer"],
            "oneOf": [{"required": ["equals"]}, {"required": ["in"]}],
            "additionalProperties": False,
        },
    ]
}
