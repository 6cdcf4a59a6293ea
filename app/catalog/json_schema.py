"""Check of the JSON Schema of a payload spec before it is stored."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import re2
from jsonschema import Draft202012Validator, ValidationError
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from app.catalog.schema_fault_words import place_and_words
from app.catalog.validation import MAX_CPU_SECONDS, MAX_FAULTS, BoundedValidator, Budget, TooCostlyError, regex, short
from app.kernel.errors import Detail, InvalidSchemaError
from app.kernel.formats import pointer
from app.kernel.suggestions import did_you_mean

MAX_SCHEMA_BYTES = 131_072
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SPECIFICATION = "https://json-schema.org/draft/2020-12/"

_METASCHEMA: Any = BoundedValidator(Draft202012Validator.META_SCHEMA, registry=REGISTRY)

# Keywords whose values contain schemas.
_ONE = (
    *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")


class _Part(NamedTuple):
    """Schema object in the document: its place, and the resolver of its references."""

    pointer: str
    schema: Mapping[str, Any]
    resolver: Any


def check_schema(schema: Any, *, cpu_seconds: float = MAX_CPU_SECONDS) -> None:
    """Raise InvalidSchemaError unless this is a supported JSON Schema 2020-12."""
    _check_outside(schema)
    try:
        with Budget(cpu_seconds):
            found = itertools.islice(_METASCHEMA.iter_errors(schema), MAX_FAULTS)
            _refuse([_worded(fault) for fault in found])
            _refuse(list(itertools.islice(_faults(schema), MAX_FAULTS)))
        # An endless schema refers to itself without descending into the input, so any input shows it.
        with Budget(cpu_seconds):
            for _fault in BoundedValidator(schema, registry=REGISTRY).iter_errors({}):
                pass
    except TooCostlyError:
        _refuse([("", "The schema is too large to check.")])
    except RecursionError:
        _refuse([("", "The schema is nested too deeply, or refers to itself without end.")])


def _worded(fault: ValidationError) -> tuple[str, str]:
    path, words = place_and_words(fault)
    if fault.validator == "anyOf" and list(path)[-1:] == ["type"]:
        remedy = did_you_mean(fault.instance, _TYPES) or f" Use one of {', '.join(_TYPES)}, or a list of them."
        words = f"{fault.instance!r} is not a type.{remedy}"
    return pointer(path), words


def _check_outside(schema: Any) -> None:
    if not isinstance(schema, dict):
        _refuse([("", "Must be a JSON Schema object.")])
    elif len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        _refuse([("", f"Must have at most {MAX_SCHEMA_BYTES} bytes.")])
    elif str(schema.get("$schema", DIALECT)).removesuffix("#") != DIALECT:
        _refuse([("/$schema", f"Must be {DIALECT}, the only supported dialect.")])


def _faults(schema: Any) -> Iterator[tuple[str, str]]:
    """Find faults beyond the metaschema: unresolvable references, and patterns that RE2 refuses."""
    parts = list(_parts(schema))
    known = {id(part.schema) for part in parts}
    has_patterns = any("patternProperties" in part.schema for part in parts)
    for part in parts:
        Budget.spend()
        if part.pointer and str(part.schema.get("$schema", DIALECT)).removesuffix("#") != DIALECT:
            yield f"{part.pointer}/$schema", f"Must be {DIALECT}, the only supported dialect."
        for name in ("$ref", "$dynamicRef"):
            if name in part.schema and not _resolves(part, part.schema[name], known):
                yield (
                    f"{part.pointer}/{name}",
                    "Points to no schema in this document; other documents are not fetched.",
                )
        if has_patterns and "unevaluatedProperties" in part.schema:
            # jsonschema would run these patterns through `re`, whose time has no bound.
            yield f"{part.pointer}/unevaluatedProperties", "This is not supported together with patternProperties."
        yield from _bad_patterns(part)


def _parts(schema: Any) -> Iterator[_Part]:
    resource = DRAFT202012.create_resource(schema)
    waiting = [_Part("", schema, REGISTRY.resolver_with_root(resource))]
    while waiting:
        part = waiting.pop()
        Budget.spend()
        yield part
        for where, child in _children(part.schema):
            if isinstance(child, dict):
                resolver = part.resolver.in_subresource(DRAFT202012.create_resource(child))
                waiting.append(_Part(f"{part.pointer}{where}", child, resolver))


def _children(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _ONE:
        if name in schema:
            yield f"/{name}", schema[name]
    for name in _LISTS:
        yield from ((pointer((name, index)), child) for index, child in enumerate(schema.get(name, ())))
    for name in _MAPS:
        yield from ((pointer((name, key)), child) for key, child in schema.get(name, {}).items())


def _resolves(part: _Part, reference: str, known: set[int]) -> bool:
    try:
        target = part.resolver.lookup(reference)
    except (Unresolvable, ValueError):
        return False
    # A pointer can resolve to a value that is not a schema and was not checked.
    return isinstance(target.contents, bool) or id(target.contents) in known or reference.startswith(_SPECIFICATION)


def _bad_patterns(part: _Part) -> Iterator[tuple[str, str]]:
    places = [
        (pointer(("patternProperties", pattern)), pattern) for pattern in part.schema.get("patternProperties", {})
    ]
    if "pattern" in part.schema:
        places.append(("/pattern", part.schema["pattern"]))
    for where, pattern in places:
        Budget.spend()
        try:
            regex(pattern)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            yield part.pointer + where, f"Must be a regular expression in RE2's syntax: {reason}."


def _refuse(faults: list[tuple[str, str]]) -> None:
    if not faults:
        return
    details: list[Detail] = [{"pointer": f"/schema{where}", "message": short(why)} for where, why in faults]
    raise InvalidSchemaError(f"The schema cannot be used. {details[0]['pointer']}: {details[0]['message']}", details)
