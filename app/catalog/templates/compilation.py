"""Templates in endpoint specs: `{{input.user.name}}`, `{{config.base_url}}`, `{{secret.api_key}}`. Pure.

A spec is compiled once per endpoint version into a tree of nodes and rendered once per delivery. In fields that take
any JSON, a string that is exactly one placeholder keeps the value's JSON type; a placeholder inside a longer string
becomes text. A literal `{{` cannot be written, but a config value may contain it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.catalog.templates import urls
from app.catalog.templates.field_rules import NOT_TEMPLATED, FieldKind, FieldRule
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
    Text,
    UrlNode,
)
from app.kernel.errors import Detail, TemplateError
from app.kernel.formats import escaped

NAMESPACES = ("input", "config", "secret")
MAX_DEPTH = 100
STAND_IN = "te0stands0in0for0a0secret"  # possible in a host

_VARIABLE = re.compile(r"([A-Za-z_]+)((?:\.[^\s.{}]+)*)")


@dataclass(frozen=True, slots=True)
class SpecTemplate:
    """A compiled endpoint spec."""

    root: Object = field(repr=False)
    placeholders: tuple[Placeholder, ...]
    secret_refs: frozenset[str]

    def any_input(self) -> dict[str, Any]:
        """Return a made-up input with a value for every input placeholder."""
        input_: dict[str, Any] = {}
        # Longest paths first, so that no number takes the place of an object.
        for item in sorted(self.placeholders, key=_depth, reverse=True):
            if item.namespace == "input":
                *above, last = item.path
                at = input_
                for name in above:
                    at = at.setdefault(name, {})
                at.setdefault(last, 1)
        return input_

    def render(self, input_: Any, config: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        """Resolve every template; raises TemplateError naming the variable and the field, never a value."""
        rendered: dict[str, Any] = self.root.render({"input": input_, "config": config, "secret": secrets})
        return rendered

    def masked(self, input_: Any, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Resolve every template with STAND_IN for each secret; None if the result is not a valid spec."""
        try:
            return self.render(input_, config, dict.fromkeys(self.secret_refs, STAND_IN))
        except TemplateError:
            return None


def compile_fields(spec: Mapping[str, Any], rules: Mapping[str, FieldRule], at: str = "/spec") -> SpecTemplate:
    """Compile the fields of a spec at the pointer `at`; raises TemplateError with all faults."""
    compiler = _Compiler()
    items = tuple(
        (name, compiler.node(value, f"{at}/{escaped(name)}", rules.get(name, NOT_TEMPLATED), 0))
        for name, value in spec.items()
    )
    if compiler.faults:
        first = compiler.faults[0]
        raise TemplateError(f"{first['message']} (at {first['pointer']})", compiler.faults)
    secrets = frozenset(".".join(item.path) for item in compiler.placeholders if item.namespace == "secret")
    return SpecTemplate(Object(items), tuple(compiler.placeholders), secrets)


def _depth(item: Placeholder) -> int:
    return len(item.path)


class _Compiler:
    """Compiler of one spec; collects placeholders and faults."""

    def __init__(self) -> None:
        self.placeholders: list[Placeholder] = []
        self.faults: list[Detail] = []

    def node(self, value: Any, pointer: str, rule: FieldRule, depth: int) -> Node:
        if isinstance(value, str):
            return self._string(value, pointer, rule)
        if depth > MAX_DEPTH:
            self._fault(pointer, f"the spec is nested more than {MAX_DEPTH} levels deep")
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
                self._fault(below, "a key cannot be a template")
            items.append((key, self.node(item, below, rule, depth + 1)))
        return Constant(value) if _are_constant([node for _, node in items]) else Object(tuple(items))

    def _string(self, text: str, pointer: str, rule: FieldRule) -> Node:
        parts = tuple(self._parse(text, pointer, rule))
        if rule.kind is FieldKind.URL:
            return self._url(parts, pointer, rule)
        if rule.kind is FieldKind.LOCATOR:
            return self._locator(parts, pointer, rule)
        literal = [part for part in parts if isinstance(part, str)]
        if rule.kind is FieldKind.LINE and any(urls.CONTROL.search(part) for part in literal):
            self._fault(pointer, "a line break or another control character is not allowed here")
        if len(literal) == len(parts):
            return Constant(text)
        if len(parts) == 1 and isinstance(parts[0], Placeholder) and rule.kind in {FieldKind.VALUE, FieldKind.COUNT}:
            return SolePlaceholder(parts[0]) if rule.kind is FieldKind.VALUE else CountNode(parts[0])
        if rule.kind is FieldKind.COUNT:
            self._fault(pointer, "a number must be a placeholder of its own, without other text")
        return Text(parts, one_line=rule.kind is FieldKind.LINE)

    def _url(self, parts: tuple[Part, ...], pointer: str, rule: FieldRule) -> Node:
        used = [part.namespace if isinstance(part, Placeholder) else None for part in parts]
        if "input" in used:
            shape = [part if isinstance(part, str) else None for part in parts]
            fault = urls.template_fault(shape, used.index("input"))
            if fault:
                self._fault(pointer, fault)
        elif not any(used):
            return self._literal_url("".join(map(str, parts)), pointer, rule)
        pieces = tuple((part, _escape_for(parts, index)) for index, part in enumerate(parts))
        return UrlNode(pieces, pointer, rule.schemes)

    def _locator(self, parts: tuple[Part, ...], pointer: str, rule: FieldRule) -> Node:
        # A literal scheme can be checked before any placeholder is resolved.
        first = parts[0] if parts else ""
        if isinstance(first, str):
            try:
                urls.finish_locator(first + "x" * (len(parts) > 1), rule.schemes)
            except ValueError as error:
                self._fault(pointer, str(error))
        if all(isinstance(part, str) for part in parts):
            return Constant("".join(map(str, parts)).strip())
        pieces = tuple((part, _escape_for(parts, index)) for index, part in enumerate(parts))
        return UrlNode(pieces, pointer, rule.schemes, urls.finish_locator)

    def _literal_url(self, text: str, pointer: str, rule: FieldRule) -> Node:
        try:
            return Constant(urls.finish(text, rule.schemes, None))
        except ValueError as error:
            self._fault(pointer, str(error))
            return Constant(text)

    def _parse(self, text: str, pointer: str, rule: FieldRule) -> Iterator[Part]:
        literals = []
        for literal, inside in _tokens(text):
            literals.append(literal)
            if literal:
                yield literal
            placeholder = None if inside is None else self._placeholder(inside, pointer, rule)
            if placeholder:
                yield placeholder
        outside = "".join(literals)
        if "{{" in outside or _closes_too_often(outside):
            self._fault(pointer, "the braces are not balanced")

    def _placeholder(self, inside: str, pointer: str, rule: FieldRule) -> Placeholder | None:
        match = _VARIABLE.fullmatch(inside.strip())
        shown = "{{" + inside[:80] + "}}"
        if match is None or match[1] not in NAMESPACES or not match[2]:
            self._fault(pointer, f"{shown} is not a variable: {{{{input.…}}}}, {{{{config.…}}}} or {{{{secret.…}}}}")
            return None
        if match[1] not in rule.namespaces:
            allowed = ", ".join(sorted(rule.namespaces)) or "no variable at all"
            self._fault(pointer, f"{shown} is not allowed in this field; allowed: {allowed}")
            return None
        placeholder = Placeholder(match[1], tuple(match[2][1:].split(".")), pointer)
        self.placeholders.append(placeholder)
        return placeholder

    def _fault(self, pointer: str, message: str) -> None:
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
