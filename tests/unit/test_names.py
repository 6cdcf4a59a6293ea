"""File names and class names are unique, so that a search finds the right one."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from schema.states import EndpointType

ROOT = Path(__file__).parents[2]
ROLES = {
    *("__init__", "admission", "api", "checks", "chores", "cli", "handlers", "metrics"),
    *("reasons", "rules", "schemas", "store", "tables"),
}
# Transports have a spec and a dispatcher of the same name; each schema has its own `Meta`.
TRANSPORTS = {endpoint_type.queue for endpoint_type in EndpointType}
SHARED_FILES = TRANSPORTS | {"__main__", "limits", "document", "base"}
SHARED_CLASSES = {"Meta"}


def modules() -> Iterator[Path]:
    for package in ("app", "actors", "brokers", "schema"):
        yield from (path for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts)


def used_twice(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


def test_file_names_are_unique() -> None:
    """A duplicate needs a file name with the full noun; a feature's files of the standard roles are exempt."""
    places = defaultdict[str, list[str]](list)
    for path in modules():
        if path.stem not in SHARED_FILES | ROLES:
            places[path.stem].append(str(path.relative_to(ROOT)))
    assert used_twice(places) == {}


def test_class_names_are_unique() -> None:
    """A duplicate needs a class name that distinguishes the two classes."""
    places = defaultdict[str, list[str]](list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_CLASSES:
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert used_twice(places) == {}
