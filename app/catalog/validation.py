"""Validation by JSON Schema, bounded: neither a schema nor an input can stall the process.

Both come from clients. So patterns run on RE2, which takes linear time and refuses look-around and back references;
equal items are found in one pass; and every evaluated keyword counts against a budget of CPU time. References are
resolved in the document and in the specification's own schemas, never fetched.
"""

import functools
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import attrs
import re2
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema_specifications import REGISTRY

from app.catalog.schema_fault_words import place_and_words
from app.kernel.errors import Detail
from app.kernel.formats import pointer
from app.kernel.function_types import AnyFunction

MAX_CPU_SECONDS = 1.0
MAX_FAULTS = 20
MAX_MESSAGE = 300
MAX_PATTERN = 4_096
# RE2 takes up to 8 ns per byte of text and instruction of the pattern, if its states do not fit into memory. A search
# cannot be interrupted, so the product is bounded before.
MAX_PATTERN_WORK = 100_000_000


class TooCostlyError(Exception):
    """A validation has used up its budget."""


class Validator:
    """Compiled schema; safe to share between threads."""

    def __init__(self, schema: Mapping[str, Any], *, cpu_seconds: float = MAX_CPU_SECONDS) -> None:
        self._validator = BoundedValidator(schema, registry=REGISTRY)
        self._cpu_seconds = cpu_seconds

    def faults(self, instance: Any) -> list[Detail]:
        """Return the first MAX_FAULTS faults of an input; empty if it is valid."""
        try:
            with Budget(self._cpu_seconds):
                found = itertools.islice(self._validator.iter_errors(instance), MAX_FAULTS)
                placed = [place_and_words(fault) for fault in found]
                return [{"pointer": pointer(path)[:MAX_MESSAGE], "message": short(words)} for path, words in placed]
        except TooCostlyError:
            return [{"pointer": "", "message": "Checking this input against the payload spec takes too long."}]
        except RecursionError:
            return [{"pointer": "", "message": "This input and the payload spec are nested too deeply together."}]


def short(message: str) -> str:
    """Truncate a message that quotes a large value."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."


class Budget:
    """Budget of CPU time for one validation in its thread; a context manager."""

    current = threading.local()

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self.current.deadline = time.thread_time() + self._seconds

    def __exit__(self, *_: object) -> None:
        self.current.deadline = None

    @classmethod
    def spend(cls) -> None:
        """Raise TooCostlyError when the time is used up; called at each step, at a tenth of its cost."""
        if time.thread_time() > cls.current.deadline:
            raise TooCostlyError


def _metered(keyword: AnyFunction) -> AnyFunction:
    @functools.wraps(keyword)
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        Budget.spend()
        return keyword(validator, value, instance, schema)

    return run


@functools.lru_cache(maxsize=4096)
def regex(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN:
        raise re2.error(f"longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    # ECMA-262 writes \uXXXX, RE2 reads only \x{XXXX}. An escaped backslash before the u stays unchanged.
    spelt = re.sub(r"\\(?:\\|u([0-9A-Fa-f]{4}))", lambda m: rf"\x{{{m[1]}}}" if m[1] else m[0], pattern)
    return re2.compile(spelt, options)


def _search(pattern: str, text: str) -> bool:
    """Return whether a pattern occurs in a text; raises TooCostlyError when the search could take seconds."""
    Budget.spend()
    compiled = regex(pattern)
    if compiled.programsize * len(text) > MAX_PATTERN_WORK:
        raise TooCostlyError
    return compiled.search(text) is not None


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not _search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _search(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in instance:
        if name in named or any(_search(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield ValidationError(f"{name!r} is unknown", path=[name])
        else:
            yield from validator.descend(instance[name], allowed, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    # jsonschema compares each pair of items; comparing canonical texts takes one pass.
    if wanted and validator.is_type(instance, "array"):
        texts = {json.dumps(_canonical(item), sort_keys=True) for item in instance}
        if len(texts) != len(instance):
            yield ValidationError("The items of the array are not unique")


def _multiple_of(validator: Any, divisor: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    # jsonschema divides doubles, for which 4.35 is not a multiple of 0.01; clients mean the decimal texts.
    is_number = validator.is_type(instance, "number")
    if is_number and (Fraction(repr(instance)) / Fraction(repr(divisor))).denominator != 1:
        yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    return value


_OURS: dict[str, AnyFunction] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
}
BoundedValidator: Any = validators.extend(
    Draft202012Validator,
    {name: _metered(keyword) for name, keyword in {**Draft202012Validator.VALIDATORS, **_OURS}.items()},
)


def _evolve(validator: Any, **changes: Any) -> Any:
    """Return the validator for another part of the schema.

    jsonschema would choose a class of its own, without the bounds, by the `$schema` of that part.
    """
    Budget.spend()
    return attrs.evolve(validator, **changes)


BoundedValidator.evolve = _evolve
