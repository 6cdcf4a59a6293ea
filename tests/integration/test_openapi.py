"""The OpenAPI document: complete, and sound in itself. That answers agree with it, every other test checks."""

from collections.abc import Iterator
from typing import Any

from flask import Flask
from jsonschema import Draft202012Validator

from tests.integration.document import document


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref":
                yield child
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def test_every_route_is_in_it(app: Flask) -> None:
    for rule in app.url_map.iter_rules():
        if rule.rule != "/openapi.json":
            path = rule.rule.replace("<", "{").replace(">", "}")
            assert {method.lower() for method in rule.methods - {"HEAD", "OPTIONS"}} <= set(document()["paths"][path])


def test_every_reference_resolves() -> None:
    found = set(references(document()))
    assert found
    for reference in found:
        target: Any = document()
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_its_schemas_are_schemas() -> None:
    assert document()["openapi"] == "3.1.0"
    for schema in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_all_but_health_needs_a_key() -> None:
    for path, operations in document()["paths"].items():
        for operation in (operations[method] for method in ("get", "post", "put", "delete") if method in operations):
            assert ("security" not in operation) == path.startswith("/health/")
            assert ("401" in operation["responses"]) == ("security" in operation)
            assert operation["summary"]
