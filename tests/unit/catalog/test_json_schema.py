"""JSON Schemas of payload specs: refused schemas, and limits on the work of validation."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.catalog import json_schema, payload_validator, validation
from app.catalog.validation_fast_path import accepts
from app.kernel.errors import InvalidSchemaError
from tests.cases import each_case

CPU_SECONDS = 0.2
"""Budget of expensive checks: less than the product's, to save time."""
LARGEST_STEP_SECONDS = 2
"""CPU time after the end of a budget: steps are not interrupted."""
DOUBLING = {
    "d0": {"type": "string"},
    **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 40)},
}


@each_case(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema#", "type": "object"},
        {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}},
        {"$defs": {"a": {"$anchor": "here"}}, "properties": {"x": {"$ref": "#here"}}},
        {"$defs": {"a": {"$id": "https://e.example/a"}}, "properties": {"x": {"$ref": "https://e.example/a"}}},
        {"$id": "https://e.example/root", "$defs": {"a": {}}, "properties": {"x": {"$ref": "root#/$defs/a"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
        {"properties": {"$ref": {"type": "string"}, "pattern": {"const": {"$ref": "http://x", "pattern": "("}}}},
        {"properties": {"a": {"pattern": r"^[\w.+-]+@\d{1,3}\u00e9\/$"}}},
        {"$defs": DOUBLING, "properties": {"x": {"$ref": "#/$defs/d39"}}},
        {"unevaluatedProperties": False, "properties": {"a": True}},
        {"format": "email", "x-own": {"$ref": "http://x"}},
    ],
)
def test_supported_schema_is_accepted(schema: dict[str, Any]) -> None:
    json_schema.check_schema(schema)


@each_case(
    ("schema", "where", "why"),
    [
        (True, "", "object"),
        ({"type": "banana"}, "/type", "banana"),
        ({"required": "a"}, "/required", "a list"),
        ({"$schema": 7}, "/$schema", "2020-12"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "/$schema", "2020-12"),
        ({"items": {"$ref": "https://e.example/other.json"}}, "/items/$ref", "not fetched"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "/items/$ref", "not fetched"),
        ({"items": {"$dynamicRef": "other.json"}}, "/items/$dynamicRef", "not fetched"),
        ({"$ref": "#/$defs/missing"}, "/$ref", "no schema"),
        # An unknown keyword is not checked, so no reference may point into it.
        ({"x-own": {"pattern": "("}, "$ref": "#/x-own"}, "/$ref", "no schema"),
        ({"$ref": "#"}, "", "without end"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "", "without end"),
        ({"pattern": "("}, "/pattern", "RE2"),
        ({"pattern": "a" * 5000}, "/pattern", "4096"),
        ({"items": {"$schema": "http://json-schema.org/draft-04/schema#"}}, "/items/$schema", "2020-12"),
        ({"pattern": r"(a)\1"}, "/pattern", "RE2"),
        ({"allOf": [{"not": {"pattern": "(?!a)"}}]}, "/allOf/0/not/pattern", "RE2"),
        ({"patternProperties": {"(?=a/)": {}}}, "/patternProperties/(?=a~1)", "RE2"),
        (
            {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]},
            "/unevaluatedProperties",
            "not supported",
        ),
        ({"$defs": DOUBLING, "$ref": "#/$defs/d39"}, "", "too large"),
        ({"description": "x" * 140_000}, "", "bytes"),
    ],
)
def test_unsupported_schema_is_refused_with_its_pointer(schema: Any, where: str, why: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        json_schema.check_schema(schema, cpu_seconds=CPU_SECONDS)
    assert caught.value.details[0]["pointer"] == f"/schema{where}"
    assert why in caught.value.details[0]["message"]


def test_faults_carry_pointers_and_are_short() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b/~": {"type": "integer"}}, "required": ["z"]}
    faults = payload_validator.compiled(schema).faults({"a": 1, "b/~": "x" * 10_000})
    assert {fault["pointer"] for fault in faults} == {"/z", "/a", "/b~1~0"}
    assert all(len(fault["message"]) <= validation.MAX_MESSAGE for fault in faults)


def test_at_most_twenty_faults_are_reported() -> None:
    faults = payload_validator.compiled({"items": {"type": "string"}, "type": "array"}).faults(list(range(1000)))
    assert len(faults) == validation.MAX_FAULTS


@each_case(
    ("schema", "valid", "invalid"),
    [
        ({"pattern": r"^\d+$"}, ["1", 5], ["a", "\u0661"]),
        ({"pattern": "^\\u0061$"}, ["a"], ["b", "u0061"]),
        ({"pattern": r"^\\u0061$"}, ["\\u0061"], ["a"]),
        ({"uniqueItems": True}, [[1, True], [0, False], ["1", 1], [{"a": 1}, {"a": 2}], [[1], [2]]], [[1, 1.0]]),
        ({"uniqueItems": True}, [[{"a": 1, "b": 2}, {"a": 2, "b": 1}]], [[{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]]),
        ({"uniqueItems": False}, [[1, 1]], []),
        (
            {"properties": {"a": {}}, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            [{"a": 0, "x1": 2}, []],
            [{"b": 1}, {"x": "no"}],
        ),
        ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "b"}]),
        ({"multipleOf": 0.01}, [4.35, 10**37, 1e308, 0, -0.07], [4.353, 1e-9]),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, [{"a": 1}], [{"b": 1}]),
    ],
)
def test_replaced_keywords_keep_their_meaning(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    json_schema.check_schema(schema)
    validator = payload_validator.compiled(schema)
    assert [validator.faults(instance) for instance in valid] == [[]] * len(valid)
    assert all(validator.faults(instance) for instance in invalid)


Pair = tuple[dict[str, Any], Any]


def backtracking() -> Pair:
    return {"pattern": "^(a|a)*(a|a)*(a|a)*$"}, "a" * 50_000 + "!"


def backtracking_names() -> Pair:
    return {"patternProperties": {"^(a+)+$": {}}}, {"a" * 50_000 + "!": 1}


def pairs_of_objects() -> Pair:
    return {"uniqueItems": True}, [{"i": i} for i in range(60_000)]


def colliding_hashes() -> Pair:
    return {"uniqueItems": True}, [(2**61 - 1) * i for i in range(25_000)]


def doubling() -> Pair:
    return {"$defs": DOUBLING, "properties": {"x": {"$ref": "#/$defs/d39"}}}, {"x": "y"}


def patterns_times_names() -> Pair:
    return {"patternProperties": {f"^{i}$": {} for i in range(5000)}}, {f"n{i}": 1 for i in range(20_000)}


def pattern_that_fills_the_memory_of_re2() -> Pair:
    return {"pattern": "abcdefgh" * 400}, "a" * 900_000


def backtracking_below_a_dialect() -> Pair:
    return {"properties": {"x": {"$schema": json_schema.DIALECT, "pattern": "^(a+)+$"}}}, {"x": "a" * 50_000 + "!"}


def metaschema_times_names() -> Pair:
    return {"$ref": json_schema.DIALECT}, {"properties": {f"p{i}": {"type": "string"} for i in range(40_000)}}


def items_without_keywords() -> Pair:
    return {"items": {"items": {"items": {}}}}, [[[1] * 100] * 100] * 50


def long_enum_times_items() -> Pair:
    return {"items": {"enum": [f"v{i}" for i in range(10_000)]}}, ["none"] * 100_000


@pytest.mark.parametrize(
    "stalling",
    [
        backtracking,
        backtracking_names,
        pairs_of_objects,
        colliding_hashes,
        doubling,
        patterns_times_names,
        pattern_that_fills_the_memory_of_re2,
        backtracking_below_a_dialect,
        metaschema_times_names,
        items_without_keywords,
        long_enum_times_items,
    ],
)
def test_expensive_validation_is_stopped(stalling: Callable[[], Pair]) -> None:
    schema, instance = stalling()
    began = time.thread_time()
    accepts(schema, instance)
    validation.Validator(schema, cpu_seconds=CPU_SECONDS).faults(instance)
    assert time.thread_time() - began < CPU_SECONDS + LARGEST_STEP_SECONDS


STALLING_TO_CHECK: dict[str, dict[str, Any]] = {
    "anchors": {
        "$defs": {f"x{i}": {"$anchor": f"a{i}"} for i in range(1800)},
        "allOf": [{"$ref": f"#a{i}"} for i in range(1800)],
    },
    "identifiers": {
        "$id": "http://a/",
        "$dynamicAnchor": "n",
        "allOf": [{"$id": f"http://a/{i}", "$dynamicAnchor": "n", "$dynamicRef": "#n"} for i in range(800)],
    },
    "patterns": {"properties": {f"p{i}": {"pattern": f"^(a{i}|b)+.{{900}}$"} for i in range(2500)}},
    "empty parts": {"allOf": [{}] * 30_000},
}


@pytest.mark.parametrize("schema", STALLING_TO_CHECK.values(), ids=STALLING_TO_CHECK)
def test_expensive_registration_is_stopped(schema: dict[str, Any]) -> None:
    began = time.thread_time()
    with contextlib.suppress(InvalidSchemaError):
        json_schema.check_schema(schema, cpu_seconds=CPU_SECONDS)
    assert time.thread_time() - began < 2 * CPU_SECONDS + LARGEST_STEP_SECONDS


def test_pattern_that_takes_too_long_is_a_fault_of_the_input() -> None:
    validator = payload_validator.compiled({"pattern": "abcdefgh" * 400})
    assert validator.faults("abcdefgh" * 400) == []
    assert "too long" in validator.faults("a" * 900_000)[0]["message"]


def test_input_that_is_too_deep_for_the_schema_is_a_fault() -> None:
    schema = {
        "$defs": {"n": {"allOf": [{"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}]}]}},
        "$ref": "#/$defs/n",
    }
    instance: Any = {}
    for _ in range(99):
        instance = {"a": instance}
    faults = payload_validator.compiled(schema).faults(instance)
    assert [fault["message"] for fault in faults] in (
        [],
        ["This input and the payload spec are nested too deeply together."],
    )


@pytest.mark.parametrize(
    ("schema", "instance", "place", "message"),
    [
        ({"required": ["amount"]}, {}, "/amount", "Required."),
        ({"required": ["a", "ab"]}, {"a": 1}, "/ab", "Required."),
        (
            {"properties": {"amount": True}, "additionalProperties": False},
            {"amuont": 1},
            "/amuont",
            "Unknown property. Did you mean 'amount'?",
        ),
        ({"type": "object"}, [], "", "Must be an object."),
        ({"properties": {"n": {"type": ["integer", "null"]}}}, {"n": "x"}, "/n", "Must be a whole number or null."),
        ({"enum": ["a", 1]}, "b", "", 'Must be one of: "a", 1.'),
        ({"const": {"a": 1}}, 1, "", 'Must be {"a":1}.'),
        ({"minimum": 5}, 4, "", "Must be at least 5."),
        ({"exclusiveMaximum": 5}, 5, "", "Must be below 5."),
        ({"maxLength": 2}, "abc", "", "Must have at most 2 characters."),
        ({"minItems": 1}, [], "", "Must have at least 1 items."),
        ({"pattern": "^a{2}$"}, "b", "", "Must match the pattern ^a{2}$."),
        ({"uniqueItems": True}, [1, 1], "", "Must have no equal items."),
        ({"not": {"type": "string"}}, "x", "", "'x' should not be valid under {'type': 'string'}."),
    ],
)
def test_fault_has_a_place_and_the_allowed_values(schema: Any, instance: Any, place: str, message: str) -> None:
    assert payload_validator.compiled(schema).faults(instance) == [{"pointer": place, "message": message}]
