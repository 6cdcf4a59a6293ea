"""Regular expressions of the product, found in its syntax trees."""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marshmallow import validate

ROOT = Path(__file__).parents[1]
# Folders of modules that handle input of clients, receivers, senders of wake-ups and operators.
FOLDERS = ("app", "actors", "brokers", "schema", "receiver/task_executor_receiver", "client/task_executor_client")
LEFT_OUT = ("app/dev/", "schema/migrations/")  # no part of a service
FUNCTIONS = {"compile", "match", "fullmatch", "search", "split", "findall", "finditer", "sub", "subn"}
VALIDATORS = {"Regexp", "FullMatch"}
ANCHORED = {"match", "fullmatch"}
_FLAGS = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2}  # index of the argument


@dataclass(frozen=True)
class Place:
    """A regular expression: file, name or function, pattern if it is a constant, and whether it is searched for."""

    file: str
    name: str
    pattern: str | bytes | None
    flags: int
    is_search: bool

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


class _Module(ast.NodeVisitor):
    """Calls of `re` in one module, each with its name or function."""

    def __init__(self, path: Path) -> None:
        self.file = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.found: list[tuple[str, str, ast.Call]] = []  # name, function of `re`, call
        self._names: list[str] = []
        self.visit(self.tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._below(node.name, node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._below(node.name, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._below(node.targets[0].id if isinstance(node.targets[0], ast.Name) else "", node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=ast.Name(id="re"), attr=method) if method in FUNCTIONS:
                self.found.append((self._name(), method, node))
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in VALIDATORS and _is_literal(node.args[0]):
                self.found.append((self._name(), "match", node))
            case ast.Attribute(attr="highlight_regex"):
                self.found.append((self._name(), "search", node))
            case _:
                pass
        self.generic_visit(node)

    def _name(self) -> str:
        return ".".join(filter(None, self._names))

    def _below(self, name: str, node: ast.AST) -> None:
        self._names.append(name)
        self.generic_visit(node)
        self._names.pop()


def places() -> Iterator[Place]:
    """Yield the regular expressions of all modules."""
    modules = [_Module(path) for path in _paths()]
    methods = _methods(modules)
    for module in modules:
        for name, function, call in module.found:
            used = methods[name.rpartition(".")[2]] if function == "compile" else {function}
            pattern, flags = _constant(module.file, call)
            # Without a known use, assume a search.
            yield Place(module.file, name, pattern, flags, is_search=not used or not used <= ANCHORED)


def _paths() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT):
                yield path


def _methods(modules: list[_Module]) -> defaultdict[str, set[str]]:
    """Return the methods that are called on each name, in any module."""
    methods = defaultdict[str, set[str]](set)
    for module in modules:
        for node in ast.walk(module.tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
                    methods[name] |= {method} & FUNCTIONS
                case ast.Call(func=ast.Attribute(attr=of) | ast.Name(id=of), args=[ast.Name(id=name), *_]):
                    methods[name] |= {"match"} if of in VALIDATORS else set()
                case _:
                    pass
    return methods


def _constant(file: str, call: ast.Call) -> tuple[str | bytes | None, int]:
    """Evaluate the pattern and the flags of a call in its module; (None, 0) if they depend on arguments."""
    package = file.removeprefix("receiver/").removeprefix("client/").removesuffix(".py").removesuffix("/__init__")
    module = vars(importlib.import_module(package.replace("/", ".")))
    given = [each.value for each in call.keywords if each.arg == "flags"] or call.args[_FLAGS.get(_name(call), 9) :]
    with suppress(NameError):
        return _evaluated(call.args[0], module), int(_evaluated(given[0], module)) if given else 0
    return None, 0


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _evaluated(node: ast.expr, module: dict[str, object]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), {**module, "re": re, "validate": validate})
