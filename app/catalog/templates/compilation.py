"""Templates in endpoint specs: `{{input.user.name}}`, `{{config.base_url}}`, `{{secret.api_key}}`. Pure.

A spec is compiled once per endpoint version into a tree of nodes and rendered once per delivery. In fields that take
any JSON, a string that is exactly one placeholder keeps the value's JSON type; a placeholder inside a longer string
becomes text. A literal `{{` cannot be written, but a config value may contain it.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from app.catalog.templates import urls
from app.catalog.templates.nodes import (
    Array,
    Constant,
    CountNode,
    Escape,
    Node,
    Object,
    Part,
    Placeholder,
    SolePlaceholder,
    SpecTemplate,
    Text,
    UrlNode,
    template_error,
)
from app.kernel.errors import Detail
from app.kernel.formats import escaped

INPUT = frozenset({"input"})
CONFIG = frozenset({"config"})
SECRET = frozenset({"secret"})
ALL = INPUT | CONFIG | SECRET
MAX_DEPTH = 100

_VARIABLE = re.compile(r"([A-Za-z_]+)((?:\.[^\s.{}]+)*)")


class FieldKind(Enum):
    """Rendering of a field."""

    VALUE = auto()  # any JSON; a sole placeholder keeps its type
    TEXT = auto()  # always a string
    LINE = auto()  # a string without control characters: nothing can end a header early
    URL = auto()  # a URL whose scheme, host and port the input cannot change
    LOCATOR = auto()  # a URL of one of several schemes; the dispatcher reads the rest
    COUNT = auto()  # a whole number from 1
    ARGUMENTS = auto()  # as VALUE, and `{{input}}` is the whole input
    OPAQUE = auto()  # any JSON, stored as given; its braces are no variables of this spec


class FieldRule(NamedTuple):
    """Rendering of one field, and the namespaces of the variables that the field may hold."""

    kind: FieldKind
    namespaces: frozenset[str]
    schemes: frozenset[str] = frozenset()  # of a URL or a locator


_KEEP_TYPES = frozenset({FieldKind.VALUE, FieldKind.COUNT, FieldKind.ARGUMENTS})
NOT_TEMPLATED = FieldRule(FieldKind.VALUE, frozenset())
OPAQUE = FieldRule(FieldKind.OPAQUE, frozenset())


def compile_fields(spec: Mapping[str, Any], rules: Mapping[str, FieldRule], at: str = "/spec") -> SpecTemplate:
    """Compile the fields of a spec at the pointer `at`; raises TemplateError with all faults."""
    compiler = Compiler()
    items = tuple(
        (name, compiler.node(value, f"{at}/{escaped(name)}", rules.get(name, NOT_TEMPLATED), 0))
        for name, value in spec.items()
    )
    if compiler.faults:
        raise template_error(compiler.faults)
    secrets = frozenset(".".join(item.path) for item in compiler.placeholders if item.namespace == "secret")
    return SpecTemplate(Object(items), tuple(compiler.placeholders), secrets)


class Compiler:
    """Compiler of one spec; collects placeholders and faults. A subclass may have other variables."""

    example = "{{input.NAME}}"

    def __init__(self) -> None:
        self.placeholders: list[Placeholder] = []
        self.faults: list[Detail] = []

    def node(self, value: Any, pointer: str, rule: FieldRule, depth: int) -> Node:
        if rule.kind is FieldKind.OPAQUE:
            return Constant(value)
        if isinstance(value, str):
            return self._string(value, pointer, rule)
        if depth > MAX_DEPTH:
            self.fault(pointer, f"Must be nested at most {MAX_DEPTH} levels deep.")
        elif isinstance(value, Mapping):
            return self._object(value, pointer, rule, depth)
        elif isinstance(value, list):
            nodes = tuple(self.node(item, f"{pointer}/{index}", rule, depth + 1) for index, item in enumerate(value))
            return Constant(value) if _are_constant(nodes) else Array(nodes)
        return Constant(value)

    def _object(self, value: Mapping[str, Any], pointer: str, rule: FieldRule, depth: int) -> Node:
        items = []
        for key, item in value.items():
            below = f"{pointer}/{escaped(key)}"
            if "{{" in key or "}}" in key:
                self.fault(below, "A key must not contain a template.")
            items.append((key, self.node(item, below, rule, depth + 1)))
        return Constant(value) if _are_constant([node for _, node in items]) else Object(tuple(items))

    def _string(self, text: str, pointer: str, rule: FieldRule) -> Node:
        if rule.kind is FieldKind.VALUE and "{{" not in text and "}}" not in text:
            return Constant(text)
        parts = tuple(self._parse(text, pointer, rule))
        if rule.kind in {FieldKind.URL, FieldKind.LOCATOR}:
            return self._url(text, parts, pointer, rule)
        literal = [part for part in parts if isinstance(part, str)]
        if rule.kind is FieldKind.LINE and any(urls.CONTROL.search(part) for part in literal):
            self.fault(pointer, "Must not contain a line break or another control character.")
        if len(literal) == len(parts):
            return Constant(text)
        if len(parts) == 1 and isinstance(parts[0], Placeholder) and rule.kind in _KEEP_TYPES:
            return CountNode(parts[0]) if rule.kind is FieldKind.COUNT else SolePlaceholder(parts[0])
        if rule.kind is FieldKind.COUNT:
            self.fault(pointer, "Must be a number, or a placeholder of its own, without other text.")
        return Text(parts, one_line=rule.kind is FieldKind.LINE)

    def _url(self, text: str, parts: tuple[Part, ...], pointer: str, rule: FieldRule) -> Node:
        finish = urls.finish if rule.kind is FieldKind.URL else urls.finish_locator
        used = [part.namespace if isinstance(part, Placeholder) else None for part in parts]
        try:
            if not any(used):
                return Constant(finish(text, rule.schemes, None))
            if "input" in used:
                shape = [part if isinstance(part, str) else None for part in parts]
                urls.check_place_of_input(shape, used.index("input"))
            elif rule.kind is FieldKind.LOCATOR and isinstance(parts[0], str):
                # A literal scheme can be checked before any placeholder is resolved.
                urls.finish_locator(f"{parts[0]}x", rule.schemes)
        except ValueError as error:
            self.fault(pointer, str(error))
        pieces = tuple((part, _escape_for(parts, index)) for index, part in enumerate(parts))
        return UrlNode(pieces, pointer, rule.schemes, finish)

    def _parse(self, text: str, pointer: str, rule: FieldRule) -> Iterator[Part]:
        literals = []
        for literal, inside in _tokens(text):
            literals.append(literal)
            if literal:
                yield literal
            placeholder = None if inside is None else self.placeholder(inside, pointer, rule)
            if placeholder:
                yield placeholder
        outside = "".join(literals)
        if "{{" in outside or ("}}" in outside and _closes_too_often(outside)):
            self.fault(pointer, f"The braces of a placeholder are not balanced. Write {self.example}.")

    def placeholder(self, inside: str, pointer: str, rule: FieldRule) -> Placeholder | None:
        """Return the placeholder of the text between two pairs of braces; None, and a fault, if it is no variable."""
        match = _VARIABLE.fullmatch(inside.strip())
        shown = "{{" + inside[:80] + "}}"
        is_whole = rule.kind is FieldKind.ARGUMENTS and match is not None and match[0] == "input"
        if match is None or match[1] not in ALL or (not match[2] and not is_whole):
            self.fault(
                pointer,
                f"{shown} is not a variable. Use {{{{input.NAME}}}}, {{{{config.NAME}}}} or {{{{secret.NAME}}}}.",
            )
            return None
        if match[1] not in rule.namespaces:
            allowed = ", ".join(sorted(rule.namespaces)) or "no variables"
            self.fault(pointer, f"{shown} is not allowed in this field; allowed: {allowed}.")
            return None
        placeholder = Placeholder(match[1], () if is_whole else tuple(match[2][1:].split(".")), pointer)
        self.placeholders.append(placeholder)
        return placeholder

    def fault(self, pointer: str, message: str) -> None:
        """Add a fault."""
        self.faults.append(Detail(pointer=pointer, message=message))


def _tokens(text: str) -> Iterator[tuple[str, str | None]]:
    """Divide a text into pairs of literal text and the content of the `{{…}}` after it; None after the last literal.

    A regular expression would take quadratic time for many `{{` without an end.
    """
    position = 0
    while (start := text.find("{{", position)) >= 0 and (end := text.find("}}", start + 2)) >= 0:
        yield text[position:start], text[start + 2 : end]
        position = end + 2
    yield text[position:], None


def _are_constant(nodes: list[Node] | tuple[Node, ...]) -> bool:
    return all(isinstance(node, Constant) for node in nodes)


def _closes_too_often(literal: str) -> bool:
    """Report a `}}` that nothing opened; `{"a": {"b": 1}}` in a string is not a template."""
    depth = 0
    for index, character in enumerate(literal):
        depth += (character == "{") - (character == "}")
        if depth < 0 and "}}" in literal[max(index - 1, 0) : index + 2]:
            return True
    return False


def _escape_for(parts: tuple[Part, ...], index: int) -> Escape | None:
    """Choose the encoding of one part of a URL.

    Input is always encoded. A config or secret value may be a whole base URL or a path, so it is not encoded, with two
    exceptions: user and password before the host, and a secret in the query.
    """
    part = parts[index]
    if isinstance(part, str):
        return None
    before = "".join(item if isinstance(item, str) else "x" for item in parts[:index])
    after = "".join(item if isinstance(item, str) else "x" for item in parts[index + 1 :])
    is_value = part.namespace == "input" or urls.in_userinfo(before, after)
    return urls.encode if is_value or (part.namespace == "secret" and "?" in before) else None
