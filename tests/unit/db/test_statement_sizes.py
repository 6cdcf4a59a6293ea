"""Texts of the registered statements: short enough to read, quick to parse for a server, and plain SQL."""

import ast
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

from tests.statements import MODULES, STATEMENTS

MAX_CHARACTERS = 20_000
MAX_TEXTS = 3
# Modules that build statements of several arms, or for the tables of their callers, by f-strings.
BUILDERS = ("app.queue.claiming.", "app.kernel.db.deletion", "app.catalog.endpoints.inline")


def test_no_statement_is_longer_than_20000_characters() -> None:
    lengths = {name: len(clause.text) for name, clause in STATEMENTS}
    assert {name: length for name, length in lengths.items() if length > MAX_CHARACTERS} == {}


def test_no_statement_is_built_from_more_than_three_named_texts() -> None:
    """A named text is a constant of a module. Texts in functions that build the statement count as well."""
    texts = {f"{module.__name__}: {ast.unparse(call.args[0])}": set(_texts(module, call, set()))
             for module in MODULES for call in _registrations(module)}  # fmt: skip
    assert len(texts) > len(STATEMENTS) / 2, "few registrations were found"
    assert {name: found for name, found in texts.items() if len(found) > MAX_TEXTS} == {}


def test_text_of_a_statement_is_plain_sql_with_named_parts() -> None:
    """`statement("name", "… WHERE {is_late}", is_late=_IS_LATE)` reads as SQL; an f-string reads as Python."""
    modules = [module for module in MODULES if not module.__name__.startswith(BUILDERS)]
    calls = [call for module in modules for call in _registrations(module)]
    assert [ast.unparse(call.args[0]) for call in calls if isinstance(call.args[1], ast.JoinedStr)] == []


def _registrations(module: ModuleType) -> Iterator[ast.Call]:
    """Yield the calls of a module that register a statement."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("statement", "hot_statement"):
            yield node


def _texts(module: ModuleType, tree: ast.AST, seen: set[FunctionType]) -> Iterator[str]:
    """Yield the names of the constants from which an expression or a function builds a text."""
    for node in ast.walk(tree):
        value = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
        if isinstance(value, str) and isinstance(node, ast.Name):
            yield node.id
        elif isinstance(value, FunctionType) and value not in seen and value.__module__ != "app.kernel.sql":
            seen.add(value)
            yield from _texts(sys.modules[value.__module__], ast.parse(inspect.getsource(value)), seen)
