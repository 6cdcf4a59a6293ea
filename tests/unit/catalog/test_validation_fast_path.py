"""Fast path of validation: accepts only valid inputs, and accepts the valid inputs of usual schemas."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from app.catalog.json_schema import check_schema
from app.catalog.validation import MAX_CPU_SECONDS, BoundedValidator, Budget
from app.catalog.validation_fast_path import MAX_DEPTH, MAX_ITEMS, accepts
from app.kernel.errors import InvalidSchemaError
from app.kernel.formats import Unreadable
from tests.cases import IS_WHOLE, each_case

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "An order",
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 10, "description": "its number"},
        "total": {"type": "number", "minimum": 0},
        "state": {"enum": ["open", "paid"]},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["id"],
    "additionalProperties": False,
}
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 10, 0.0, 1.0, 1.5, 1e300, 10**30, "", "a", "b", "ab", "é" * 3, "1", "open"),
    *([], [1], ["a"], [1, "a", None], [[1]], list(range(MAX_ITEMS)), list(range(MAX_ITEMS + 1))),
    *({}, {"a": 1}, {"a": "a", "b": None}, {"b": {"a": []}}, {"a": [{"a": 1}]}, {"c": 1}),
]
TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]


def random_schema(rng: random.Random, depth: int = 0) -> Any:
    """Generate a random schema, including schemas that the fast path does not support."""
    if depth > 3 or rng.random() < 0.05:
        return rng.choice([True, {}, {"type": rng.choice(TYPES)}, False])

    def below() -> Any:
        return random_schema(rng, depth + 1)

    keywords = {
        "type": lambda: rng.choice([*TYPES, rng.sample(TYPES, 2)]),
        "properties": lambda: {name: below() for name in rng.sample("abc", rng.randint(1, 3))},
        "required": lambda: rng.sample("abc", rng.randint(0, 2)),
        "additionalProperties": lambda: rng.choice([True, False, False, below()]),
        "patternProperties": lambda: {"^a": below()},
        "items": below,
        "prefixItems": lambda: [below()],
        "enum": lambda: rng.sample(VALUES, 4),
        "const": lambda: rng.choice(VALUES),
        "not": below,
        "anyOf": lambda: [below(), below()],
        "uniqueItems": lambda: True,
        "pattern": lambda: "^a",
        "multipleOf": lambda: 0.5,
        "title": lambda: "A title",
        "format": lambda: "email",
        "default": lambda: rng.choice(VALUES),
        **{
            f"{end}{noun}": lambda: rng.randint(0, 3)
            for end in ("min", "max")
            for noun in ("Items", "Length", "Properties")
        },
        **{name: lambda: rng.choice([-1, 0, 1, 1.5, 10**30]) for name in ("minimum", "maximum", "exclusiveMinimum")},
    }
    usual = ["type", "properties", "required", "items", "minLength", "maxItems", "minimum"]
    names = rng.sample(usual, rng.randint(0, 3)) + rng.sample(list(keywords), rng.choice([0, 0, 1, 1, 2]))
    return {name: keywords[name]() for name in names}


def is_valid(schema: Any, value: Any) -> bool:
    with Budget(MAX_CPU_SECONDS):
        return not any(BoundedValidator(schema).iter_errors(value))


def usable(schemas: Iterator[Any]) -> Iterator[Any]:
    for schema in schemas:
        try:
            check_schema(schema)
        except InvalidSchemaError:
            continue
        yield schema


@pytest.mark.sampled
def test_accepted_inputs_are_valid() -> None:
    rng, accepted, plain, count = random.Random(), 0, 0, 1200 if IS_WHOLE else 400
    for schema in usable(random_schema(rng) for _ in range(count)):
        found = [value for value in VALUES if accepts(schema, value)]
        for value in found:
            assert is_valid(schema, value), (schema, value)
        accepted += len(found)
        plain += bool(found)
    assert plain > count / 12
    assert accepted > count


@pytest.mark.parametrize(
    "value",
    [
        {"id": "o1"},
        {"id": "o1", "total": 1.5, "state": "open", "lines": [{"n": 1}, {}], "note": None},
        {"id": "0123456789", "note": "", "total": 0},
    ],
)
def test_valid_input_of_a_usual_schema_is_accepted(value: Any) -> None:
    assert accepts(ORDER, value)


@each_case(
    "value",
    [
        *({}, {"id": ""}, {"id": "01234567890"}, {"id": 1}, {"id": "a", "total": -1}, {"id": "a", "total": True}),
        *({"id": "a", "state": "lost"}, {"id": "a", "lines": []}, {"id": "a", "lines": [{"n": 1.5}]}),
        *({"id": "a", "note": 1}, {"id": "a", "more": 1}, [], "text", None),
    ],
)
def test_invalid_input_is_not_accepted(value: Any) -> None:
    assert not accepts(ORDER, value)


def nested(depth: int, leaf: Any, *above: str) -> Any:
    """Nest a leaf in objects, or in the properties of schemas."""
    for _ in range(depth):
        for name in above or ("a", "properties"):
            leaf = {name: leaf}
    return leaf


@each_case(
    ("schema", "value"),
    [
        *((False, 1), ({"$ref": "#"}, 1), ({"pattern": "a"}, "a"), ({"unknown": 1}, 1)),
        ({"properties": {"a": {"$ref": "#"}}}, {"a": 1}),
        ({"items": {"items": {}}}, [[1]]),
        ({"items": {"properties": {"a": {"items": {}}}}}, [{"a": [1]}]),
        (nested(MAX_DEPTH, {}), nested(MAX_DEPTH, 1, "a")),
        ({"properties": {}, "patternProperties": {"a": {}}, "additionalProperties": False}, {}),
    ],
)
def test_unsupported_schema_is_left_to_the_validator(schema: Any, value: Any) -> None:
    assert not accepts(schema, value)


def test_long_array_is_left_to_the_validator() -> None:
    assert accepts({"items": {"type": "integer"}}, [1] * MAX_ITEMS)
    assert not accepts({"items": {"type": "integer"}}, [1] * (MAX_ITEMS + 1))


def test_unreadable_value_is_left_to_the_validator() -> None:
    assert not accepts({"properties": {"output": {"type": "object"}}}, {"output": Unreadable(unreadable="too deep")})
