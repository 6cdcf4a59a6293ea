"""Promises of an OpenAPI document to its clients, one a line; `python -m tests.api_promises` writes them for a release.

`tests/unit/released_api.txt` has the lines of the last release, and a file beside the unit tests of a feature has the
lines of its operations. A later document may add lines, except lines that begin with `requires`: requests that are
complete today would be refused.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.web.registration import resources

UNIT = Path(__file__).parent / "unit"
NAME = "released_api.txt"

REQUIRES = "requires "
_REFERENCE = "#/components/schemas/"
_METHODS = ("get", "post", "put", "patch", "delete")
_UNIONS = ("allOf", "anyOf", "oneOf")

Json = Mapping[str, Any]


def promises(document: Json) -> set[str]:
    """Return the promises of a document."""
    schemas = document["components"]["schemas"]
    sent = _reachable(
        schemas, [_references(body) for _, operation in _operations(document) for body in _bodies(operation)]
    )
    found = {line for name, schema in schemas.items() for line in _of_schema(name, schema, is_sent=name in sent)}
    return found.union(*(_of_operation(name, operation) for name, operation in _operations(document)))


def breaches(released: set[str], present: set[str]) -> list[str]:
    """Return the lost promises, and new requirements for requests to released operations and schemas."""
    lost = {f"lost: {line}" for line in released - present if not line.startswith(REQUIRES)}
    known = {line.split()[1] for line in released}
    added = {line for line in present - released if line.startswith(REQUIRES) and line.split()[1] in known}
    return sorted(lost | {f"new: {line}" for line in added})


def released() -> set[str]:
    """Return the promises of the last release, without the features that were removed since."""
    return {line for file in (UNIT / NAME, *UNIT.glob(f"features/*/{NAME}")) for line in file.read_text().splitlines()}


def by_feature(lines: set[str], document: Json) -> dict[str, set[str]]:
    """Divide promises by the only feature with the operation or the schema; the name is empty for any others."""
    owners = defaultdict[str, set[str]](set)
    for resource in resources():
        for operation, view in resource.operations.values():
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", operation.path)
            feature = re.match(r"app\.features\.(\w+)", view.__module__)
            owners[f"{operation.method}:{path}"].add(feature[1] if feature else "")
    for name, operation in _operations(document):
        for schema in _reachable(document["components"]["schemas"], [_references(operation)]):
            owners[schema] |= owners[name]
    found = defaultdict[str, set[str]](set)
    for line in lines:
        owner = owners[line.split()[1]]
        found[next(iter(owner)) if len(owner) == 1 else ""].add(line)
    return found


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                shared = item.get("parameters", [])
                yield (
                    f"{method.upper()}:{path}",
                    item[method] | {"parameters": shared + item[method].get("parameters", [])},
                )


def _bodies(operation: Json) -> list[Json]:
    return [each["schema"] for each in operation.get("requestBody", {}).get("content", {}).values()]


def _of_operation(name: str, operation: Json) -> Iterator[str]:
    yield f"operation {name}"
    for parameter in operation["parameters"]:
        place = f"{parameter['in']}.{parameter['name']}"
        yield from _of_schema(name, parameter["schema"], place)
        if parameter.get("required"):
            yield f"{REQUIRES}{name} {place}"
    for body in _bodies(operation):
        yield from _of_schema(name, body, "body", is_sent=True)
    for status, answer in operation["responses"].items():
        code = answer.get("$ref", "").rpartition("/")[2]
        yield f"answer {name} {code or status}"
        for content in answer.get("content", {}).values():
            yield from _of_schema(name, content.get("schema", {}), status)


def _of_schema(name: str, schema: Json, place: str = "", *, is_sent: bool = False) -> Iterator[str]:
    kind = schema.get("$ref", "").removeprefix(_REFERENCE) or schema.get("type", "any")
    yield f"field {name} {place or '.'} {'|'.join(sorted([kind] if isinstance(kind, str) else kind))}"
    yield from (f"value {name} {place or '.'} {value}" for value in schema.get("enum", ()))
    for field, inner in schema.get("properties", {}).items():
        yield from _of_schema(name, inner, f"{place}.{field}", is_sent=is_sent)
    if is_sent:
        yield from (f"{REQUIRES}{name} {place}.{field}" for field in schema.get("required", ()))
    for inner in (each for union in _UNIONS for each in schema.get(union, ())):
        yield from _of_schema(name, inner, place, is_sent=is_sent)
    if isinstance(schema.get("items"), dict):
        yield from _of_schema(name, schema["items"], f"{place}[]", is_sent=is_sent)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _of_schema(name, schema["additionalProperties"], f"{place}.*", is_sent=is_sent)


def _references(schema: Any) -> set[str]:
    """Return the names of the schemas that a schema refers to directly."""
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"].removeprefix(_REFERENCE)} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*map(_references, schema.values()))


def _reachable(schemas: Json, first: list[set[str]]) -> set[str]:
    found, waiting = set[str](), set().union(*first)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= _references(schemas.get(name)) - found
    return found


def main() -> None:
    from tests.integration.http.document import document

    for feature, lines in by_feature(promises(document()), document()).items():
        file = UNIT / "features" / feature / NAME if feature else UNIT / NAME
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in sorted(lines)))


if __name__ == "__main__":
    main()
